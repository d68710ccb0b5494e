"""Write episodes as Minari datasets, one per task, for the offline-learning libraries that read those.

The last step of a success is rewarded with 1, all others with 0. Episodes without actions are left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from polytask.errors import UserError
from polytask.mtopt.learning.sharing import Shared
from polytask.mtopt.records import ACTION_DIM, Episode
from polytask.mtopt.store.store import EpisodeStore

_AT_ONCE = 256  # episodes held in memory


def to_minari(store: EpisodeStore, root: Path, shared: Sequence[Shared]) -> list[str]:
    """Export episodes to datasets under `root`, and return their names.

    Args:
        store: Where the episodes are.
        root: Folder to write to.
        shared: Episodes, the task each of them is exported as data of, and the verdict.
    """
    from polytask.datasets.minari import _datasets_in, check_minari

    check_minari()
    groups: dict[str, list[Shared]] = {}
    for one in shared:
        groups.setdefault(one.task, []).append(one)
    if not groups:
        raise UserError("there is no episode to export")
    root.mkdir(parents=True, exist_ok=True)
    with _datasets_in(root):
        return [_export(store, task, group) for task, group in groups.items()]


def _export(store: EpisodeStore, task: str, group: Sequence[Shared]) -> str:
    """Write the dataset of one task."""
    import minari
    from gymnasium.spaces import Box, Dict

    buffers = _buffers(store, group)
    first = list(islice(buffers, _AT_ONCE))
    if not first:
        raise UserError(f"the episodes of '{task}' have no actions: there is nothing to export")
    size = first[0].observations["image"].shape[1:]
    scalar = Box(-np.inf, np.inf, (1,), np.float32)
    name = f"polytask/mtopt-{task}/log-v0"
    with warnings.catch_warnings(action="ignore"):  # Minari recommends an author and a link, for publishing
        dataset = minari.create_dataset_from_buffers(
            name,
            first,
            observation_space=Dict({"image": Box(0, 255, size, np.uint8), "closed": scalar, "height": scalar}),
            action_space=Box(-1.0, 1.0, (ACTION_DIM,), np.float32),
            algorithm_name="log",
            jpeg_encoding=False,  # frames stay as they were
            description=f"{len(group)} episodes of the task {task} from camera images",
        )
        while block := list(islice(buffers, _AT_ONCE)):
            dataset.update_dataset_from_buffer(block)
    return name


def _buffers(store: EpisodeStore, group: Sequence[Shared]) -> Iterator[Any]:
    """Turn episodes into what Minari stores."""
    from minari.data_collector import EpisodeBuffer

    number = 0
    for one in group:
        episode = store.read(one.episode)
        if not len(episode.actions):
            continue
        steps = len(episode.actions)
        is_last = np.arange(steps) == steps - 1
        yield EpisodeBuffer(
            id=number,
            seed=episode.seed,
            observations=_observations(episode),
            actions=episode.actions,
            rewards=(is_last & one.success).astype(np.float32),
            terminations=is_last,
            truncations=np.zeros(steps, bool),
            # Minari wants one more info than there are steps: the first belongs to the reset.
            infos={"success": np.concatenate([[False], is_last & one.success])},
        )
        number += 1


def _observations(episode: Episode) -> dict[str, np.ndarray[Any, Any]]:
    return {"image": episode.images, "closed": episode.closed[:, None], "height": episode.height[:, None]}
