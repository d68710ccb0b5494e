"""Export MT-Opt episodes to Minari, one Minari data set per task, for offline-learning libraries.

The last step of a successful episode has reward 1, every other step has reward 0. An episode that an action ended is
terminated; one that reached the limit of its steps is truncated. Episodes without actions are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from polytask.datasets.minari import check_minari, create_dataset, datasets_in
from polytask.errors import UserError
from polytask.mtopt.config.action import END, ActionConfig
from polytask.mtopt.config.world import WorldConfig
from polytask.mtopt.config.world_specs import BINS
from polytask.mtopt.learning.sharing import Shared
from polytask.mtopt.records import COMMANDED, Episode
from polytask.mtopt.store.store import EpisodeStore
from polytask.mtopt.world.layout import ASSIST_HEIGHT


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
    groups: dict[str, list[Shared]] = {}
    for one in shared:
        groups.setdefault(one.task, []).append(one)
    if not groups:
        raise UserError("there is no episode to export")
    with datasets_in(root):
        return [_export(store, task, group, world, layout or ActionConfig()) for task, group in groups.items()]


def _export(
    store: EpisodeStore, task: str, group: Sequence[Shared], world: WorldConfig | None, layout: ActionConfig
) -> str:
    """Write the data set of one task."""
    from gymnasium.spaces import Box, Dict

    buffers = _buffers(store, group, world, layout)
    first = next(buffers, None)
    if first is None:
        raise UserError(f"no episode of '{task}' has actions, so there is nothing to export")
    size = first.observations["image"].shape[1:]
    scalar = Box(-np.inf, np.inf, (1,), np.float32)
    return create_dataset(
        f"polytask/mtopt-{task}/log-v0",
        chain([first], buffers),
        observation_space=Dict({"image": Box(0, 255, size, np.uint8), "closed": scalar, "height": scalar}),
        action_space=Box(-1.0, 1.0, (layout.size,), np.float32),
        algorithm_name="log",
        jpeg_encoding=False,  # store frames without loss
        description=f"{len(group)} episodes of the task {task} from camera images",
    )


def _buffers(
    store: EpisodeStore, group: Sequence[Shared], world: WorldConfig | None, layout: ActionConfig
) -> Iterator[Any]:
    """Convert episodes to Minari's episode buffers."""
    from minari.data_collector import EpisodeBuffer

    number = 0
    for one in group:
        episode = store.read(one.episode)
        if not len(episode.actions):
            continue
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
            infos={"success": np.concatenate([[False], is_last & one.success])},
        )
        number += 1


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
