"""Write the episodes of MT-Opt as a LeRobot data set (`lerobot.py`), so that `mtopt import` reads equal episodes again.

An episode of T actions has T + 1 rows, one per frame. The last row shows the last frame. No action follows it: its
action is zero and `is_last` is true, so that a learner can leave it out. What belongs to a whole episode is in a table
of our own, `meta/polytask.parquet` (`mtopt_whole.py`), which LeRobot ignores. An episode that several tasks learn from
is written once for each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polytask.datasets.export_folder import export_folder
from polytask.datasets.lerobot import About, LeRobotWriter, check_pyarrow
from polytask.datasets.mtopt_whole import write_whole
from polytask.errors import UserError
from polytask.mtopt.config.action import ActionConfig
from polytask.mtopt.learning.sharing import Shared
from polytask.mtopt.records import Episode
from polytask.mtopt.store.store import EpisodeStore

IMAGE = "observation.images.shoulder"
STATE, ACTION, LAST, SUCCESS = "observation.state", "action", "is_last", "next.success"
HAND_NAMES = ("closed", "height")
POSE_NAMES = ("x", "y", "yaw")
WHOLE = "meta/polytask.parquet"


def to_lerobot(
    store: EpisodeStore,
    root: Path,
    shared: Sequence[Shared],
    sentences: Mapping[str, str],
    fps: int = 5,
    action_names: Sequence[str] | None = None,
) -> int:
    """Export episodes to a data set in the folder `root`, and return its number of frames.

    Args:
        store: The store of the episodes.
        root: Folder to write to. It must not exist.
        shared: The episodes to export, each with a task and the verdict on that task.
        sentences: The sentence that LeRobot uses for a task, by task name. A task without a sentence keeps its name.
        fps: Actions per second.
        action_names: Names of the numbers of an action; None for those of the arm.

    Raises:
        UserError: If a package is missing, the folder exists, there is no episode to write, or the episodes differ in
            their pictures or in whether they have a pose.
    """
    check_pyarrow()
    if root.exists():
        raise UserError(f"'{root}' exists already; name another folder")
    chosen = [one for one in shared if store.row(one.episode).length]
    if not chosen:
        raise UserError("there is no episode with actions to export")
    with export_folder(root):
        has_pose = store.read(chosen[0].episode).pose is not None
        names = {
            STATE: (*HAND_NAMES, *(POSE_NAMES if has_pose else ())),
            ACTION: tuple(action_names or ActionConfig().names),
        }
        writer = LeRobotWriter(root, About("panda", fps, names))
        for one in chosen:
            episode = store.read(one.episode)
            writer.add(sentences.get(one.task, one.task), _columns(episode, one), {IMAGE: episode.images})
        writer.close()
        write_whole(root / WHOLE, store, [one.episode for one in chosen])
    return writer.frames


def _columns(episode: Episode, one: Shared) -> dict[str, NDArray[Any]]:
    """Return the columns of an episode's T + 1 rows. Rewards belong to the action of their row."""
    steps = len(episode.actions)
    frame = np.arange(steps + 1)
    ends = frame == steps - 1  # the last action
    hand = [episode.closed, episode.height]
    pose = [] if episode.pose is None else list(episode.pose.T)
    return {
        STATE: np.stack([*hand, *pose], 1),  # (T + 1, 2), or (T + 1, 5) with the pose
        ACTION: np.concatenate([episode.actions, np.zeros_like(episode.actions[:1])]),  # (T + 1, 8)
        "next.reward": (ends & one.success).astype(np.float32),
        "next.done": frame >= steps - 1,
        SUCCESS: ends & one.success,
        LAST: frame == steps,
    }
