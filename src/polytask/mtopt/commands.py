"""What `polytask mtopt ...` and `polytask label` do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from polytask.cli.console import Result, note, table
from polytask.errors import UserError
from polytask.mtopt.config.keys import EvalKeys, RelabelKeys, StatusKeys
from polytask.mtopt.config.label import LabelConfig
from polytask.mtopt.config.run import RunConfig, check
from polytask.mtopt.detector.folder import choose, newest
from polytask.mtopt.roles import DetectorTrainer, Evaluation, Evaluator, Labeller
from polytask.mtopt.runtime.beside import collect_beside
from polytask.mtopt.runtime.device import prepare
from polytask.mtopt.runtime.folder import RunFolder
from polytask.mtopt.runtime.local import LocalRuntime
from polytask.mtopt.runtime.lock import BusyError
from polytask.mtopt.status import status_of
from polytask.mtopt.store import EpisodeStore
from polytask.mtopt.tasks import TASKS


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
    return _shown(evaluation, config.store)


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
    found = status_of(RunFolder(config.store))
    lines = [f"{done['added']:.0f} episodes added, {done['episodes']:.0f} in all: {config.store}"]
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
    return Result(metrics, [table(f"training in {config.store}", ("figure", "value"), rows)])


def evaluate(config: EvalKeys) -> Result:
    """Run `polytask mtopt eval`."""
    settings = RunFolder(config.store).config()
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
    return _shown(evaluator.step(config.tasks or None, is_scripted=config.scripted), config.store)


def relabel(config: RelabelKeys) -> Result:
    """Run `polytask mtopt relabel`."""
    folder = RunFolder(config.store)
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


def status(config: StatusKeys) -> Result:
    """Run `polytask mtopt status`."""
    found = status_of(RunFolder(config.store))
    return Result(found.plain(), found.tables(), found.lines())


def label(config: LabelConfig) -> Result:
    """Run `polytask label`."""
    from polytask.mtopt.label.server import serve

    serve(config)
    store = EpisodeStore(config.store)
    labels = store.labels(source=config.source)
    store.close()
    counts: dict[str, list[int]] = {}
    for one in labels:
        counts.setdefault(one.task, [0, 0])[one.value > 0.5] += 1
    rows = [(task, success, failure) for task, (failure, success) in counts.items()]
    payload = {"labels": {task: {"success": success, "failure": failure} for task, success, failure in rows}}
    return Result(payload, [table("labels", ("task", "successes", "failures"), rows)])


def _relabel(folder: RunFolder, config: RelabelKeys) -> Result:
    """Relabel a run that nobody else writes to; the detector is in use from then on."""
    settings = folder.config()
    settings.device = config.device or settings.device
    prepare(settings.device)
    settings.tasks = list(dict.fromkeys((*settings.learned, *config.add)))
    version = _train_detector(settings, config.add) if config.train else config.detector or newest(settings.detectors)
    if version is None:
        raise UserError(
            f"there is no detector in '{settings.detectors}'; label first: polytask label store={config.store}"
        )
    labeller = Labeller(settings, version)
    _taught(config.add, labeller.judge.taught(config.add), f"detector {version}", config.store)
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


COMMANDS: dict[str, Callable[[Any], Result]] = {
    "collect": collect,
    "train": train,
    "run": run,
    "eval": evaluate,
    "relabel": relabel,
    "status": status,
    "label": label,
}


def _typed(config: Any) -> RunConfig:
    assert isinstance(config, RunConfig)
    return check(config)


def _known(tasks: Sequence[str]) -> None:
    unknown = [task for task in tasks if task not in TASKS]
    if unknown:
        raise UserError(f"unknown task '{unknown[0]}'; known: {', '.join(TASKS)}")


def _taught(wanted: Sequence[str], taught: Sequence[str], who: str, store: str) -> None:
    """Refuse tasks that a detector was not taught."""
    missing = [task for task in wanted if task not in taught]
    if missing:
        raise UserError(
            f"{who} was taught no success and failure of '{missing[0]}'; label both, then train a detector: "
            f"polytask label store={store} tasks=[{missing[0]}]"
        )


def _train_detector(config: RunConfig, wanted: Sequence[str]) -> str:
    """Train a detector under a name that no other has, and return the name."""
    trainer = DetectorTrainer(config)
    _taught(wanted, trainer.teachable(), "a detector trained now", config.store)
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
        f"Now it is your turn: `polytask label store={config.store}`, label some successes and some failures of each "
        "task, then give the same command again."
    )
    return Result({"waiting": "labels", "store": config.store}, [], [line])


def _shown(evaluation: Evaluation, store: str) -> Result:
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
    lines = [f"mean success {evaluation.mean:.3f} (simulator's truth); store: {store}"]
    payload = {**asdict(evaluation), "success": evaluation.mean, "store": store}
    return Result(payload, [table(title, columns, rows)], lines)
