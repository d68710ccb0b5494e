"""Look for damage in the folder of a run, and mend what can be mended (`polytask mtopt check`).

What a kill leaves is not damage: bytes of an unfinished episode and temporary files are reported, and removed by a
repair, but the run goes on with or without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polytask.errors import UserError
from polytask.files import can_read, is_being_written, parse_json, remove_stale_parts, restore
from polytask.mtopt.config import RunConfig
from polytask.mtopt.detector import Detector
from polytask.mtopt.detector.folder import in_use
from polytask.mtopt.learning.learner import QLearner
from polytask.mtopt.learning.weights import WeightFolder
from polytask.mtopt.roles.trainer import STATE, load_state
from polytask.mtopt.run_tasks import FILE, read, tasks_of
from polytask.mtopt.runtime.folder import METRICS, RunFolder
from polytask.mtopt.store import DamagedIndexError, EpisodeStore, StoreReport

CAN_REPAIR = "repair=true mends it"


@dataclass(frozen=True)
class Finding:
    """Something in the folder of a run that is not as it should be."""

    file: str
    problem: str
    is_wrong: bool = True  # otherwise the run is not affected
    is_mended: bool = False
    outcome: str = "cannot be mended"  # what the repair did or could do


def check_folder(folder: RunFolder, *, repair: bool) -> list[Finding]:
    """Check all files of a run.

    Args:
        folder: Of the run.
        repair: Mend what can be mended; no other process may use the run meanwhile.

    Raises:
        UserError: If there is no such folder, or another process prevents a repair.
    """
    if not folder.root.is_dir():
        raise UserError(f"there is no folder '{folder.root}'")
    found = list(_leftovers(folder.root))  # before the lock, which removes those of dead processes
    if repair:
        folder.lock()
    with closing(folder):
        if repair:
            found = [_remove(folder.root, one) for one in found]
        config = RunConfig(run_dir=str(folder.root))
        if (folder.root / FILE).exists():
            found += _tried(FILE, read, folder.root / FILE)
        try:
            config = folder.config()
        except UserError as error:
            found.append(Finding(folder.path.name, str(error)))
        else:
            found += _log(folder)
        found += _store(config, repair=repair)
        found += _lines_of(folder.root / "second_answers.jsonl")
        found += _detectors(config)
        found += _learner(config)
    return found


# Small files


def _leftovers(root: Path) -> Iterator[Finding]:
    for path in sorted(root.rglob(".*.part")):
        name = str(path.relative_to(root))
        if is_being_written(path):
            yield Finding(name, "temporary file", is_wrong=False, outcome="left alone while its process runs")
        else:
            yield Finding(name, "temporary file of a killed process", is_wrong=False, outcome=CAN_REPAIR)


def _remove(root: Path, one: Finding) -> Finding:
    path = root / one.file
    remove_stale_parts(path.parent)
    if path.exists():
        return Finding(one.file, "temporary file", is_wrong=False, outcome="left alone")
    return Finding(one.file, one.problem, is_wrong=False, is_mended=True, outcome="removed")


def _log(folder: RunFolder) -> Iterator[Finding]:
    """Check that the log has a line for every job."""
    jobs = folder.require()["jobs"]
    try:
        missing = set(range(1, jobs + 1)) - {row["iteration"] for row in folder.records()}
    except UserError as error:
        yield Finding(METRICS, str(error))
        return
    if missing:
        yield Finding(METRICS, f"the lines of {len(missing)} of {jobs} jobs are missing")


def _lines_of(path: Path) -> Iterator[Finding]:
    """Check that every line is a JSON object."""
    if not path.exists():
        return
    try:
        with can_read(path):
            lines = [line for line in path.read_bytes().splitlines() if line.strip()]
    except UserError as error:
        yield Finding(path.name, str(error))
        return
    damaged = sum(not isinstance(parse_json(line), dict) for line in lines)
    if damaged:
        problem = f"{damaged} of {len(lines)} lines cannot be read"
        yield Finding(path.name, problem, is_wrong=False, outcome="they are skipped")


# Episodes


def _store(config: RunConfig, *, repair: bool) -> Iterator[Finding]:
    """Check shards and index, and compare them."""
    name = EpisodeStore.INDEX
    if not (config.root / "shards").exists() and not (config.root / name).exists():
        return
    try:
        store = EpisodeStore(config.root, config.storage, rebuilds=False)
        with closing(store):
            report, problem = store.check(deep=True), store.index_problem()
    except DamagedIndexError as error:
        report, problem = None, error.reason
    except UserError as error:
        yield Finding(name, str(error))
        return
    has_bad_rows = report is not None and not report.is_sound
    if problem is not None:
        yield Finding(name, problem, is_mended=repair, outcome=_rebuilt(config, is_needed=repair))
    elif has_bad_rows and repair:
        yield Finding(
            name, "lists episodes that cannot be read", is_mended=True, outcome=_rebuilt(config, is_needed=True)
        )
    if report is not None:
        yield from _episodes(report, repair=repair)
    if repair:
        with closing(EpisodeStore(config.root, config.storage)) as store:
            for shard, episodes, left_over in store.mend_tails():
                outcome = f"{episodes} episodes entered, {left_over} bytes cut off"
                yield Finding(f"shards/{shard}", "differs from the index", is_mended=True, outcome=outcome)
    elif report is not None:
        yield from _tails(report)


def _rebuilt(config: RunConfig, *, is_needed: bool) -> str:
    if not is_needed:
        return CAN_REPAIR
    done = EpisodeStore.rebuild(config.root)
    return "rebuilt by another process" if done is None else done.summary()


def _episodes(report: StoreReport, *, repair: bool) -> Iterator[Finding]:
    """List the episodes that the index has and the shards do not."""
    problems = {**dict.fromkeys(report.lost, "its bytes are missing"), **report.damaged}
    outcome = "its rows were removed; the old index has them" if repair else "repair=true removes its rows"
    for episode, problem in sorted(problems.items()):
        yield Finding(f"episode {episode}", problem, is_mended=repair, outcome=outcome)


def _tails(report: StoreReport) -> Iterator[Finding]:
    """List the bytes at the ends of shards that the index does not list."""
    for tail in report.tails:
        if tail.episodes:
            yield Finding(f"shards/{tail.shard}", f"{tail.episodes} episodes are not in the index", outcome=CAN_REPAIR)
        if damaged := tail.left_over - tail.torn:
            problem = f"{damaged} bytes of damaged episodes, which are not in the index"
            yield Finding(f"shards/{tail.shard}", problem, is_wrong=False, outcome="left alone")
        if tail.torn:
            problem = f"{tail.torn} bytes of an unfinished episode"
            yield Finding(f"shards/{tail.shard}", problem, is_wrong=False, outcome=CAN_REPAIR)


# Tensors


def _detectors(config: RunConfig) -> Iterator[Finding]:
    yield from _tried("detectors/in_use", in_use, config.detectors)
    for path in sorted(config.detectors.glob("*.pt")):
        yield from _tried(f"detectors/{path.name}", Detector.load, path)
    for path in sorted(config.detectors.glob("*.json")):
        yield from _tried(f"detectors/{path.name}", _read_report, path)


def _read_report(path: Path) -> None:
    """Read the JSON file of a detector."""
    with can_read(path):
        content = path.read_bytes()
    if parse_json(content) is None:
        raise UserError("is not JSON")


def _learner(config: RunConfig) -> Iterator[Finding]:
    weights = WeightFolder(config.weights)
    for version in weights.versions():
        name = f"weights/{weights.path(version).name}"
        yield from _tried(name, weights.load, config.learner, "cpu", version)
    path = config.root / STATE
    if path.exists():
        yield from _tried(STATE, _load_learner, config, path)


def _load_learner(config: RunConfig, path: Path) -> None:
    restore(QLearner(config.learner, tasks_of(config).slots, "cpu"), load_state(path)["learner"], "learner")


def _tried(name: str, read: Callable[..., Any], *arguments: Any) -> Iterator[Finding]:
    """Read a file; what is wrong with it is a finding."""
    try:
        read(*arguments)
    except UserError as error:
        yield Finding(name, str(error))
