"""What `polytask mtopt ...` and `polytask label` do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from polytask.console import Result, note, table
from polytask.errors import UserError
from polytask.mtopt.keys import EvalKeys, RelabelKeys, StatusKeys
from polytask.mtopt.label.config import LabelConfig
from polytask.mtopt.roles import DetectorTrainer, Evaluation, Evaluator, Labeller
from polytask.mtopt.runtime.config import RunConfig, check
from polytask.mtopt.runtime.folder import RunFolder
from polytask.mtopt.runtime.local import LocalRuntime
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
        runtime = LocalRuntime(config, note)
        try:
            evaluation = runtime.run()
        finally:
            runtime.close()
    if evaluation is None:
        return _your_turn(config)
    return _shown(evaluation, config.store)


def collect(config: RunConfig) -> Result:
    """Run `polytask mtopt collect`."""
    runtime = LocalRuntime(_typed(config), note, is_plan=False)
    try:
        done = runtime.collect(config.collector.episodes)
    finally:
        runtime.close()
    found = status_of(runtime.folder)
    lines = [f"{done['added']:.0f} episodes added, {done['episodes']:.0f} in all: {config.store}"]
    return Result({**done, **found.plain()}, [found.episodes_table()], lines)


def train(config: RunConfig) -> Result:
    """Run `polytask mtopt train`."""
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
    evaluator = Evaluator(settings)
    if config.scripted:
        evaluator.judge.sync()
    else:
        evaluator.sync(config.weights)
    return _shown(evaluator.step(config.tasks or None, is_scripted=config.scripted), config.store)


def relabel(config: RelabelKeys) -> Result:
    """Run `polytask mtopt relabel`."""
    folder = RunFolder(config.store)
    settings = folder.config()
    _known(config.add)
    settings.device = config.device or settings.device
    settings.tasks = list(dict.fromkeys((*settings.learned, *config.add)))
    if config.train:
        _train_detector(settings)
    labeller = Labeller(settings, config.detector)
    if labeller.judge.detector is None:
        raise UserError(
            f"there is no detector in '{settings.detectors}'; label first: polytask label store={config.store}"
        )
    done = labeller.run()
    labeller.close()
    if config.add:
        state = folder.require()
        folder.update({**state["config"], "tasks": settings.tasks})
    found = status_of(folder, labeller.judge)
    lines = [f"detector {labeller.judge.version}: {done['labels']:.0f} labels added to {done['episodes']:.0f} episodes"]
    lines += [f"learned from now on: {', '.join(config.add)}"] if config.add else []
    return Result({**done, "detector": labeller.judge.version, **found.plain()}, [found.verdicts_table()], lines)


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


def _train_detector(config: RunConfig) -> None:
    """Train a detector under a name that no other has."""
    trainer = DetectorTrainer(config)
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
