"""What `polytask mtopt ...` and `polytask label` do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from polytask.errors import UserError, require_known
from polytask.mtopt.config.commands import EvaluateConfig, RelabelConfig, StatusConfig
from polytask.mtopt.config.label import LabelConfig
from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.detector.folder import choose, newest
from polytask.mtopt.roles import DetectorTrainer, Evaluation, Evaluator, Labeller
from polytask.mtopt.runtime.beside import collect_beside
from polytask.mtopt.runtime.checks import check
from polytask.mtopt.runtime.device import prepare
from polytask.mtopt.runtime.folder import RunFolder
from polytask.mtopt.runtime.local import LocalRuntime
from polytask.mtopt.runtime.lock import BusyError
from polytask.mtopt.status import status_of
from polytask.mtopt.store import EpisodeStore
from polytask.mtopt.tasks import TASKS
from polytask.result import Result, Table, note


def run(config: RunConfig) -> Result:
    """Run `polytask mtopt run`."""
    config = _typed(config)
    if config.runtime == "ray":
        from polytask.mtopt.runtime.ray import run_ray

        evaluation = run_ray(config, note)
    else:
        prepare(config.device, config.world.device)
        runtime = LocalRuntime(config, note)
        try:
            evaluation = runtime.run()
        finally:
            runtime.close()
    if evaluation is None:
        return _your_turn(config)
    return _shown(evaluation, config.run_dir)


def collect(config: RunConfig) -> Result:
    """Run `polytask mtopt collect`; beside a run that is under way, episodes are added and nothing else is touched."""
    prepare(config.world.device)
    try:
        runtime = LocalRuntime(_typed(config), note, is_plan=False)
    except BusyError:
        done = collect_beside(config, config.collector.episodes, note)
    else:
        try:
            done = runtime.collect(config.collector.episodes)
        finally:
            runtime.close()
    found = status_of(RunFolder(config.run_dir))
    lines = [f"{done['added']:.0f} episodes added, {done['episodes']:.0f} in all: {config.run_dir}"]
    return Result({**done, **found.plain()}, [found.episodes_table()], lines)


def train(config: RunConfig) -> Result:
    """Run `polytask mtopt train`."""
    prepare(config.device)
    runtime = LocalRuntime(_typed(config), note, is_plan=False)
    try:
        metrics = runtime.train(config.trainer.updates)
    finally:
        runtime.close()
    rows = [
        (name, metrics[name]) for name in ("updates", "weights", "loss", "excess", "value", "target") if name in metrics
    ]
    return Result(metrics, [Table(f"training in {config.run_dir}", ("figure", "value"), rows)])


def evaluate(config: EvaluateConfig) -> Result:
    """Run `polytask mtopt eval`."""
    settings = RunFolder(config.run_dir).config()
    _known(config.tasks)
    if config.episodes is not None and config.episodes < 1:
        raise UserError(f"episodes={config.episodes}: at least one is needed")
    episodes = config.episodes or settings.evaluator.episodes
    settings.evaluator = replace(settings.evaluator, episodes=episodes, seed=config.seed)
    if config.device is not None:
        settings.device = settings.world.device = config.device
    prepare(settings.world.device)
    evaluator = Evaluator(settings)
    if config.scripted:
        evaluator.judge.sync()
    else:
        evaluator.sync(config.weights)
    return _shown(evaluator.step(config.tasks or None, is_scripted=config.scripted), config.run_dir)


def relabel(config: RelabelConfig) -> Result:
    """Run `polytask mtopt relabel`."""
    folder = RunFolder(config.run_dir)
    folder.require()
    _known(config.add)
    if config.train and config.detector is not None:
        raise UserError(
            f"train=true uses the detector that it trains, not detector={config.detector}: give one of them"
        )
    folder.lock()
    try:
        return _relabel(folder, config)
    finally:
        folder.close()


def status(config: StatusConfig) -> Result:
    """Run `polytask mtopt status`."""
    found = status_of(RunFolder(config.run_dir))
    return Result(found.plain(), found.tables(), found.lines())


def label(config: LabelConfig) -> Result:
    """Run `polytask label`."""
    from polytask.mtopt.label.server import serve

    serve(config)
    store = EpisodeStore(config.run_dir)
    labels = store.labels(source=config.source)
    store.close()
    counts: dict[str, list[int]] = {}
    for one in labels:
        counts.setdefault(one.task, [0, 0])[one.value > 0.5] += 1
    rows = [(task, success, failure) for task, (failure, success) in counts.items()]
    payload = {"labels": {task: {"success": success, "failure": failure} for task, success, failure in rows}}
    return Result(payload, [Table("labels", ("task", "successes", "failures"), rows)])


def _relabel(folder: RunFolder, config: RelabelConfig) -> Result:
    """Relabel a run that nobody else writes to; the detector is in use from then on."""
    settings = folder.config()
    settings.device = config.device or settings.device
    prepare(settings.device)
    settings.tasks = list(dict.fromkeys((*settings.learned, *config.add)))
    version = _train_detector(settings, config.add) if config.train else config.detector or newest(settings.detectors)
    if version is None:
        raise UserError(
            f"there is no detector in '{settings.detectors}'; label first: polytask label run_dir={config.run_dir}"
        )
    labeller = Labeller(settings, version)
    _taught(config.add, labeller.judge.taught(config.add), f"detector {version}", config.run_dir)
    choose(settings.detectors, version)
    done = labeller.run()
    labeller.close()
    if config.add:
        state = folder.require()
        folder.update({**state["config"], "tasks": settings.tasks})
    found = status_of(folder)
    lines = [
        f"detector {found.detector}, in use from now on: {done['labels']:.0f} labels added to {done['episodes']:.0f} "
        "episodes",
        *found.untaught_lines(),
        *([f"learned from now on: {', '.join(config.add)}"] if config.add else []),
    ]
    return Result({**done, **found.plain()}, [found.verdicts_table()], lines)


def _typed(config: Any) -> RunConfig:
    assert isinstance(config, RunConfig)
    return check(config)


def _known(tasks: Sequence[str]) -> None:
    for task in tasks:
        require_known("task", task, TASKS)


def _taught(wanted: Sequence[str], taught: Sequence[str], who: str, store: str) -> None:
    """Refuse tasks that a detector was not taught."""
    missing = [task for task in wanted if task not in taught]
    if missing:
        raise UserError(
            f"{who} was taught no success and failure of '{missing[0]}'; label both, then train a detector: "
            f"polytask label run_dir={store} tasks=[{missing[0]}]"
        )


def _train_detector(config: RunConfig, wanted: Sequence[str]) -> str:
    """Train a detector under a name that no other has, and return the name."""
    trainer = DetectorTrainer(config)
    _taught(wanted, trainer.teachable(), "a detector trained now", config.run_dir)
    numbers = [int(path.stem.removeprefix("relabel-")) for path in config.detectors.glob("relabel-*.pt")]
    number = max(numbers, default=0) + 1
    shown = -1

    def progress(share: float) -> None:
        nonlocal shown
        if int(10 * share) > shown:
            shown = int(10 * share)
            note(f"training detector relabel-{number}: {share:.0%}")

    trainer.step(f"relabel-{number}", progress)
    trainer.close()
    return f"relabel-{number}"


def _your_turn(config: RunConfig) -> Result:
    line = (
        f"Now it is your turn: `polytask label run_dir={config.run_dir}`, label some successes and some failures of "
        "each task, then give the same command again."
    )
    return Result({"waiting": "labels", "run_dir": config.run_dir}, [], [line])


def _shown(evaluation: Evaluation, run_dir: str) -> Result:
    """Lay an evaluation out."""
    columns = ("task", "episodes", "success", "95 % interval", "detector says", "wrongly granted", "scripts", "actions")
    rows = [
        (
            row.task,
            row.episodes,
            row.success,
            f"{row.low:.2f} to {row.high:.2f}",
            row.verdict,
            row.wrong,
            row.script,
            row.length,
        )
        for row in evaluation.tasks
    ]
    title = f"{evaluation.policy}, detector {evaluation.detector or 'none'}"
    lines = [f"mean success {evaluation.mean:.3f} (simulator's truth); run: {run_dir}"]
    payload = {**asdict(evaluation), "success": evaluation.mean, "run_dir": run_dir}
    return Result(payload, [Table(title, columns, rows)], lines)
