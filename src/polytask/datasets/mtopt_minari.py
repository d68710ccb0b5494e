"""Export MT-Opt episodes to Minari, one Minari data set per task, for offline-learning libraries.

The last step of a successful episode has reward 1, every other step has reward 0. An episode that an action ended is
terminated; one that reached the limit of its steps is truncated. Episodes without actions are left out. The infos of an
episode have the pose of the hand, where it is known. What belongs to a whole episode is in a table of our own,
`polytask.parquet` (`mtopt_whole.py`), which Minari ignores, so that `mtopt import` reads equal episodes again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from polytask.datasets.lerobot import check_pyarrow
from polytask.datasets.minari import check_minari, create_dataset, datasets_in
from polytask.datasets.mtopt_whole import write_whole
from polytask.errors import UserError
from polytask.mtopt.config.action import END, ActionConfig
from polytask.mtopt.config.world import WorldConfig
from polytask.mtopt.config.world_specs import BINS
from polytask.mtopt.learning.sharing import Shared
from polytask.mtopt.records import COMMANDED, Episode
from polytask.mtopt.store.store import EpisodeStore
from polytask.mtopt.world.layout import ASSIST_HEIGHT

SUCCESS, POSE = "success", "pose"  # infos
WHOLE = "polytask.parquet"
_NAME = re.compile("polytask/mtopt-(.+)/log-v0")


def mtopt_to_minari(
    store: EpisodeStore,
    root: Path,
    shared: Sequence[Shared],
    world: WorldConfig | None = None,
    layout: ActionConfig | None = None,
) -> list[str]:
    """Export episodes to Minari data sets in the folder `root`, and return their names.

    Args:
        store: The store of the episodes.
        root: Folder to write to.
        shared: The episodes to export, each with a task and the verdict on that task.
        world: The world of the episodes: in assisted ones, gripping and releasing end an episode, too. None: a real
            robot, whose episodes only end by the command to terminate.
        layout: Of an action; None for that of the arm.
    """
    check_minari()
    check_pyarrow()
    groups: dict[str, list[Shared]] = {}
    for one in shared:
        groups.setdefault(one.task, []).append(one)
    if not groups:
        raise UserError("there is no episode to export")
    with datasets_in(root):
        return [_export(store, root, group, world, layout or ActionConfig()) for group in groups.values()]


def task_of(name: str) -> str:
    """Return the task of a data set of ours by its name; the whole name of any other."""
    found = _NAME.fullmatch(name)
    return name if found is None else found[1]


def _export(
    store: EpisodeStore, root: Path, group: Sequence[Shared], world: WorldConfig | None, layout: ActionConfig
) -> str:
    """Write the data set of one task."""
    from gymnasium.spaces import Box, Dict

    task = group[0].task
    chosen = [one for one in group if store.row(one.episode).length]
    if not chosen:
        raise UserError(f"no episode of '{task}' has actions, so there is nothing to export")
    buffers = _buffers(store, chosen, world, layout)
    first = next(buffers)
    size = first.observations["image"].shape[1:]
    scalar = Box(-np.inf, np.inf, (1,), np.float32)
    name = create_dataset(
        f"polytask/mtopt-{task}/log-v0",
        chain([first], buffers),
        observation_space=Dict({"image": Box(0, 255, size, np.uint8), "closed": scalar, "height": scalar}),
        action_space=Box(-1.0, 1.0, (layout.size,), np.float32),
        algorithm_name="log",
        jpeg_encoding=False,  # store frames without loss
        description=f"{len(chosen)} episodes of the task {task} from camera images",
    )
    write_whole(root / name / WHOLE, store, [one.episode for one in chosen])
    return name


def _buffers(
    store: EpisodeStore, chosen: Sequence[Shared], world: WorldConfig | None, layout: ActionConfig
) -> Iterator[Any]:
    """Convert episodes to Minari's episode buffers."""
    from minari.data_collector import EpisodeBuffer

    for number, one in enumerate(chosen):
        episode = store.read(one.episode)
        steps = len(episode.actions)
        is_last = np.arange(steps) == steps - 1
        is_done = _is_ended(episode, world, layout)
        yield EpisodeBuffer(
            id=number,
            seed=episode.seed,
            observations=_observations(episode),
            actions=episode.actions,
            rewards=(is_last & one.success).astype(np.float32),
            terminations=is_last & is_done,
            truncations=is_last & (not is_done),
            # Minari expects one more info than steps. The first info belongs to the reset.
            infos={
                SUCCESS: np.concatenate([[False], is_last & one.success]),
                **({} if episode.pose is None else {POSE: episode.pose}),
            },
        )


def _is_ended(episode: Episode, world: WorldConfig | None, layout: ActionConfig) -> bool:
    """Return whether the last action ended the episode, in the bins by the rule of `BinWorld`; else by its steps."""
    action, is_closed = episode.actions[-1], bool(episode.closed[-2])
    ends = END in layout.commands and bool(action[layout.entry(END)] > COMMANDED)
    if world is not None and world.kind == BINS.name and world.assisted:
        closes, opens = (bool(action[layout.entry(name)] > COMMANDED) for name in ("close", "open"))
        is_low = bool(episode.height[-2] + world.reach * action[2] < ASSIST_HEIGHT)
        ends = ends or ((closes or is_low) and not is_closed) or (opens and not closes and is_closed)
    return ends


def _observations(episode: Episode) -> dict[str, np.ndarray[Any, Any]]:
    return {"image": episode.images, "closed": episode.closed[:, None], "height": episode.height[:, None]}
