"""The commands `polytask mtopt ...` and `polytask label`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, replace
from importlib.util import find_spec

from polytask.errors import UserError
from polytask.files.folder_lock import BusyError
from polytask.mtopt.config.commands import CheckConfig, EvaluateConfig, RelabelConfig, StatusConfig
from polytask.mtopt.config.exchange import ActConfig
from polytask.mtopt.config.label import LabelConfig
from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.detector.folder import choose, in_use, newest, next_version
from polytask.mtopt.detector.labels import labels_by_task
from polytask.mtopt.evaluation_tables import evaluation_result
from polytask.mtopt.label.server import NEEDS
from polytask.mtopt.roles import DetectorTrainer, Evaluator, Grader
from polytask.mtopt.run_tasks import tasks_of
from polytask.mtopt.runtime.base import restored_controller
from polytask.mtopt.runtime.check_folder import check_folder
from polytask.mtopt.runtime.checks import check_devices, needs_lid, prepared
from polytask.mtopt.runtime.collect_alongside import collect_alongside
from polytask.mtopt.runtime.folder import RunFolder, with_folder
from polytask.mtopt.runtime.local import LocalRuntime
from polytask.mtopt.status import status_of
from polytask.mtopt.store import EpisodeStore
from polytask.result import Result, Table, note
from polytask.stopping import exit_code, stop_requests


def run(config: RunConfig) -> Result:
    """Run `polytask mtopt run`."""
    config = with_folder(prepared(config))
    with stop_requests("job") as stops:
        if config.runtime == "ray":
            from polytask.mtopt.runtime.ray.start import run_ray

            evaluation = run_ray(config, note, stops)
        else:
            check_devices({"device": config.device, "world.device": config.world.device})
            with closing(LocalRuntime(config, note)) as runtime:
                evaluation = runtime.run(stops)
    state = RunFolder(config.root).require()
    if stops and not restored_controller(config, state).is_done:
        return _stopped(state["jobs"], str(config.root), stops)
    if evaluation is None:
        return _labels_needed(config)
    return evaluation_result(evaluation, str(config.root))


def collect(config: RunConfig) -> Result:
    """Run `polytask mtopt collect`; if another process has the run, only add episodes."""
    config = with_folder(prepared(config))
    check_devices({"world.device": config.world.device})
    with stop_requests("sequence") as stops:
        try:
            runtime = LocalRuntime(config, note, is_plan=False)
        except BusyError:
            done = collect_alongside(config, config.collector.episodes, note, stops)
        else:
            with closing(runtime):
                done = runtime.collect(config.collector.episodes, stops)
    found = status_of(RunFolder(config.root))
    lines = [f"{done['added']:.0f} episodes added, {done['episodes']:.0f} in all: {config.run_dir}"]
    code = exit_code(stops) if done["added"] < config.collector.episodes else 0
    return Result({**done, **found.plain()}, [found.episodes_table()], lines, code)


def train(config: RunConfig) -> Result:
    """Run `polytask mtopt train`."""
    config = prepared(config)
    check_devices({"device": config.device})
    with stop_requests("job") as stops, closing(LocalRuntime(config, note, is_plan=False)) as runtime:
        metrics = runtime.train(config.trainer.updates, stops)
    rows = [
        (name, metrics[name]) for name in ("updates", "weights", "loss", "excess", "value", "target") if name in metrics
    ]
    code = exit_code(stops) if runtime.updates_left else 0
    return Result(metrics, [Table(f"training in {config.run_dir}", ("figure", "value"), rows)], [], code)


def evaluate(config: EvaluateConfig) -> Result:
    """Run `polytask mtopt eval`."""
    settings = RunFolder(config.root).config()
    tasks_of(settings).require(config.tasks)
    own = settings.evaluator
    episodes, max_steps = config.episodes or own.episodes, config.max_steps or own.max_steps
    settings.evaluator = replace(own, episodes=episodes, max_steps=max_steps, seed=config.seed)
    world = {key: value for key in ("device", "sim", "num_envs") if (value := getattr(config, key)) is not None}
    settings.world, settings.device = replace(settings.world, **world), config.device or settings.device
    check_devices({"device": settings.world.device})
    evaluator = Evaluator(settings)
    if config.scripted:
        evaluator.judge.sync()
    else:
        evaluator.sync(config.weights)
    return evaluation_result(evaluator.step(config.tasks or None, is_scripted=config.scripted), str(config.root))


def relabel(config: RelabelConfig) -> Result:
    """Run `polytask mtopt relabel`."""
    folder = RunFolder(config.root)
    folder.require()
    tasks_of(folder.config()).require(config.add)
    if config.train and config.detector is not None:
        raise UserError(
            f"train=true uses the detector that it trains, not detector={config.detector}: set only one of them"
        )
    folder.lock()
    with closing(folder), stop_requests("step") as stops:
        try:
            return _relabel(folder, config, stops)
        except StoppedError:
            line = "stopped while the new detector was trained; the run is unchanged"
            return Result({"stopped": True, "run_dir": config.run_dir}, [], [line], exit_code(stops))


def status(config: StatusConfig) -> Result:
    """Run `polytask mtopt status`."""
    found = status_of(RunFolder(config.root))
    return Result(found.plain(), found.tables(), found.lines())


def check(config: CheckConfig) -> Result:
    """Run `polytask mtopt check`."""
    findings = check_folder(RunFolder(config.root), repair=config.repair)
    is_sound = all(one.is_mended or not one.is_wrong for one in findings)
    rows = [(one.file, one.problem, one.outcome) for one in findings]
    line = f"the run in '{config.run_dir}' is sound"
    if not is_sound:
        hint = (
            "" if config.repair else f"; `polytask mtopt check run_dir={config.run_dir} repair=true` mends what it can"
        )
        line = f"the run in '{config.run_dir}' is damaged{hint}"
    tables = [Table("findings", ("file", "finding", "repair"), rows)] if rows else []
    payload = {"run_dir": config.run_dir, "is_sound": is_sound, "findings": [asdict(one) for one in findings]}
    return Result(payload, tables, [line], exit_code=0 if is_sound else 1)


def label(config: LabelConfig) -> Result:
    """Run `polytask label`. A signal is the normal end of the page, so it returns its result."""
    from polytask.mtopt.label.server import serve

    serve(config)
    with closing(EpisodeStore(config.root)) as store:
        labels = labels_by_task(store, (config.source,))
    rows = [(task, sum(each.values()), len(each) - sum(each.values())) for task, each in labels.items()]
    payload = {"labels": {task: {"success": success, "failure": failure} for task, success, failure in rows}}
    return Result(payload, [Table("labels", ("task", "successes", "failures"), rows)])


def act(config: ActConfig) -> Result:
    """Run `polytask mtopt act`. A signal is the normal end of the server, so it returns its result."""
    if any(find_spec(name) is None for name in NEEDS):
        raise UserError("serving actions needs an extra: pip install 'polytask[label]'")
    from polytask.mtopt.act.server import serve

    serve(config)
    return Result({"run_dir": config.run_dir}, [])


class StoppedError(Exception):
    """Ends the training of a detector after a signal."""


def _relabel(folder: RunFolder, config: RelabelConfig, stops: Sequence[int]) -> Result:
    """Relabel a run that this process has locked, and put the detector into use."""
    settings = folder.config()
    settings.device = config.device or settings.device
    settings.detector.updates = config.updates or settings.detector.updates
    check_devices({"device": settings.device})
    settings.tasks = list(dict.fromkeys((*settings.learned, *config.add)))
    settings.world.lid = settings.world.lid or needs_lid(settings.tasks, tasks_of(settings))
    version = config.detector or newest(settings.detectors)
    if config.train:
        version = _train_detector(settings, config.add, stops)
    if version is None:
        raise UserError(
            f"there is no detector in '{settings.detectors}'; label first: polytask label run_dir={config.run_dir}"
        )
    with closing(Grader(settings, version)) as grader:
        _require_taught(config.add, grader.judge.taught(config.add), f"detector {version}", settings)
        choose(settings.detectors, version)
        done = grader.run(stops)
        is_stopped = bool(stops) and grader.has_more()
        if not is_stopped:
            grader.store.prune_verdicts(version)
    if config.add:
        state = folder.require()
        world = {**state["config"]["world"], "lid": settings.world.lid}
        folder.update({**state["config"], "tasks": settings.tasks, "world": world})
    found = status_of(folder)
    # Not the same command: with train=true it would train another detector.
    advice = f"polytask mtopt relabel run_dir={config.run_dir} detector={version}"
    lines = [
        f"detector {found.detector}, in use from now on: {done['labels']:.0f} labels added to {done['episodes']:.0f} "
        "episodes",
        *found.untaught_lines(),
        *([f"learned from now on: {', '.join(config.add)}"] if config.add else []),
        *([f"stopped before all episodes were labelled; continue: {advice}"] if is_stopped else []),
    ]
    code = exit_code(stops) if is_stopped else 0
    return Result({**done, **found.plain()}, [found.verdicts_table()], lines, code)


def _require_taught(wanted: Sequence[str], taught: Sequence[str], who: str, config: RunConfig) -> None:
    """Check that a detector was taught the tasks.

    Raises:
        UserError: If it was not taught one of them.
    """
    missing = [task for task in wanted if task not in taught]
    if not missing:
        return
    with closing(DetectorTrainer(config)) as trainer:
        lack = trainer.lacking(missing[:1]).get(missing[0])
    advice = f"{lack}; label, then train a detector: polytask label run_dir={config.root} tasks=[{missing[0]}]"
    if lack is None:
        command = f"polytask mtopt relabel run_dir={config.root} train=true add=[{','.join(wanted)}]"
        advice = f"there are labels of both kinds now; train a new one: {command}"
    raise UserError(f"{who} was taught no success and failure of '{missing[0]}': {advice}")


def _train_detector(config: RunConfig, wanted: Sequence[str], stops: Sequence[int]) -> str:
    """Train a detector as a new version, and return the version.

    Raises:
        StoppedError: If a signal asks to stop; nothing is written then.
    """
    version = next_version(config.detectors, "relabel")
    shown = -1

    def progress(share: float) -> None:
        nonlocal shown
        if stops:
            raise StoppedError
        if int(10 * share) > shown:
            shown = int(10 * share)
            note(f"training detector {version}: {share:.0%}")

    with closing(DetectorTrainer(config)) as trainer:
        _require_taught(wanted, trainer.teachable(), "a detector trained now", config)
        trainer.step(version, progress, in_use(config.detectors))
    return version


def _stopped(jobs: int, run_dir: str, stops: Sequence[int]) -> Result:
    """Return the result of a run that a signal has stopped."""
    line = f"stopped after {jobs} jobs, which are saved; continue: polytask mtopt run run_dir={run_dir}"
    return Result({"stopped": True, "jobs": jobs, "run_dir": run_dir}, [], [line], exit_code(stops))


def _labels_needed(config: RunConfig) -> Result:
    line = (
        f"The run waits for your labels: run `polytask label run_dir={config.run_dir}`, label some successes and some "
        "failures of each task, then run the same command again."
    )
    return Result({"waiting": "labels", "run_dir": config.run_dir}, [], [line])
