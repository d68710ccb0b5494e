"""`polytask mtopt import`: add the episodes of another robot to a run, or begin a run with them.

All episodes are checked before the first one is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polytask.datasets.incoming import Incoming, picture
from polytask.datasets.lerobot_read import LeRobotReader
from polytask.datasets.minari_read import MinariReader
from polytask.datasets.robot_folder import read_folder
from polytask.errors import UserError, suggest
from polytask.mtopt.config import ImportConfig, RunConfig
from polytask.mtopt.config.world_specs import ROBOT
from polytask.mtopt.learning.learner import needs_pose
from polytask.mtopt.records import Episode, Label
from polytask.mtopt.run_tasks import tasks_of
from polytask.mtopt.runtime.checks import prepared
from polytask.mtopt.runtime.folder import RunFolder
from polytask.mtopt.store import EpisodeStore
from polytask.mtopt.store.store import PERSON
from polytask.result import Result, Table
from polytask.settings import check_values

_AT_ONCE = 64  # episodes that are written together
_SIZES = (64, 96)  # of pictures in a new run whose pictures are scaled


def import_episodes(config: ImportConfig) -> Result:
    """Run `polytask mtopt import`."""
    if find_spec("PIL") is None:
        raise UserError("reading pictures needs an extra: pip install 'polytask[label]'")
    check_values(config)
    folder = RunFolder(config.root)
    is_new = folder.read() is None
    run = _new_run(config) if is_new else folder.config()
    if config.task is not None:
        tasks_of(run).require([config.task])
    counts, views = _check(config, run)
    if is_new:
        run = prepared(replace(run, tasks=[task for task in tasks_of(run) if task in counts]))
    folder.begin(run, is_plan=is_new)
    labels = 0
    with closing(folder), closing(EpisodeStore(run.root, run.storage)) as store:
        _check_views(store, views)
        with store.writer("import") as writer:
            entries = ((_episode(one, config, run), one) for one in _incoming(config, run))
            while block := list(islice(entries, _AT_ONCE)):
                ids = writer.append_many([episode for episode, _ in block])
                if config.labels:
                    given = list(_labels(ids, [one for _, one in block], config, run))
                    store.add_labels(given)
                    labels += len(given)
    rows = [(task, count) for task, count in counts.items()]
    total = sum(counts.values())
    payload = {"run_dir": config.run_dir, "episodes": total, "tasks": dict(rows), "labels": labels, "views": views[0]}
    lines = [f"{total} episodes added to {config.run_dir}, {labels} labels"]
    return Result(payload, [Table("imported episodes", ("task", "episodes"), rows)], lines)


def _incoming(config: ImportConfig, run: RunConfig) -> Iterable[Incoming]:
    """Return the episodes of the data set; they are read one after the other."""
    root = Path(str(config.data)).expanduser()
    if not root.is_dir():
        raise UserError(f"there is no folder '{root}'")
    layout = run.learner.network.action
    if config.source == "folder":
        return read_folder(root, layout)
    reader = LeRobotReader if config.source == "lerobot" else MinariReader
    return reader(root, config, layout)


def _new_run(config: ImportConfig) -> RunConfig:
    """Return the settings of a run that begins with the data set."""
    run = RunConfig(run_dir=config.run_dir)
    run.world.kind, run.learner.network = ROBOT.name, config.network
    first = next(iter(_incoming(config, run)))
    world = run.world
    world.image_size, world.image_width = _size(first, first.frames, config, config.image_size, _SIZES[0])
    world.outcome_size, world.outcome_width = _size(first, first.outcome, config, config.outcome_size, _SIZES[1])
    size = config.network.image_size or world.image_size
    merge = config.network.merge or "added"  # located needs the camera's place, which we do not know
    run.learner.network = replace(config.network, merge=merge, image_size=size)
    return run


def _size(
    one: Incoming, files: Sequence[bytes], config: ImportConfig, asked: int | None, usual: int
) -> tuple[int, int | None]:
    """Return the height, and the width if it differs, of the pictures of a new run."""
    if asked is not None or config.fit != "exact":
        return asked or usual, None
    width, height = picture(files[0], one.name).size
    return height, None if width == height else width


def _check(config: ImportConfig, run: RunConfig) -> tuple[dict[str, int], tuple[int, ...]]:
    """Read all episodes; return their number for each task, and the shape of their outcomes.

    Raises:
        UserError: If one cannot be used.
    """
    counts: Counter[str] = Counter()
    views: tuple[int, ...] = ()
    for one in _incoming(config, run):
        episode = _episode(one, config, run)
        views = views or episode.outcome.shape
        if episode.outcome.shape != views:
            raise UserError(f"{one.name} has {len(episode.outcome)} views of the end, earlier ones have {views[0]}")
        if not len(episode.actions):
            raise UserError(f"{one.name} has no actions")
        if episode.pose is None and needs_pose(run.learner):
            line = "which the run's network (learner.network.merge=located) needs; choose another run_dir"
            raise UserError(f"{one.name} has no pose of the hand, {line}")
        for task in one.success if config.labels else ():
            _task(task, one.name, config, run)
        counts[episode.task] += 1
    if not counts:
        raise UserError(f"'{config.data}' has no episodes")
    return dict(counts), views


def _check_views(store: EpisodeStore, views: tuple[int, ...]) -> None:
    """Check that outcomes have the shape of those that are in the store."""
    number = store.first_made()
    if number is not None and (has := store.outcome(number).shape) != views:
        raise UserError(f"the episodes have outcomes {views}, those of the run {has}; choose another run_dir")


def _episode(one: Incoming, config: ImportConfig, run: RunConfig) -> Episode:
    """Convert an episode to the sizes of a run."""
    return Episode(
        images=_pictures(one, one.frames, run.world.image_shape, config.fit),
        closed=one.closed,
        height=one.height,
        actions=one.actions,
        outcome=_pictures(one, one.outcome, run.world.outcome_shape, config.fit),
        task=_task(one.task, one.name, config, run),
        policy=one.policy,
        seed=one.seed,
        pose=one.pose,
    )


def _pictures(one: Incoming, files: Iterable[bytes], size: tuple[int, int], fit: str) -> NDArray[np.uint8]:
    """Decode pictures to the size of a run."""
    from polytask.mtopt.label.pictures import fit_picture

    found: list[Any] = []
    for data in files:
        decoded = picture(data, one.name)
        try:
            found.append(fit_picture(decoded, size, fit))
        except UserError as error:
            raise UserError(f"{one.name}: {error}") from error
    return np.stack(found)


def _task(words: str, name: str, config: ImportConfig, run: RunConfig) -> str:
    """Return the task of the run with this name or sentence; the configured one for all, if there is one."""
    if config.task is not None:
        return config.task
    tasks = tasks_of(run)
    known = {**{task: task for task in tasks}, **{info.sentence: task for task, info in tasks.items()}}
    if words not in known:
        raise UserError(
            f"{name} has the unknown task '{words}'; set task=NAME for all episodes, or add it to the run "
            f"(polytask mtopt task add); {suggest(words, tasks)}"
        )
    return known[words]


def _labels(ids: list[int], episodes: list[Incoming], config: ImportConfig, run: RunConfig) -> Iterator[Label]:
    """Yield the successes that episodes state as labels of people."""
    for number, one in zip(ids, episodes, strict=True):
        for words, success in one.success.items():
            yield Label(number, _task(words, one.name, config, run), float(success), PERSON)
