"""Read the episodes of a LeRobot data set of version 3.0 for MT-Opt: our own, or that of any robot with our actions.

The R rows of an episode become R frames and R - 1 actions: the last row's action leads to no frame. Gripper, height and
pose are taken from `observation.state` where its names are `closed`, `height`, and `x`, `y`, `yaw`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polytask.datasets.incoming import Incoming, choose_camera, hand
from polytask.datasets.lerobot import INFO, SENTENCE, TASKS, VERSION, check_pyarrow
from polytask.datasets.mtopt_lerobot import ACTION, POSE_NAMES, STATE, SUCCESS, WHOLE
from polytask.datasets.mtopt_whole import once_each, read_table, read_whole
from polytask.errors import UserError
from polytask.files import read_json
from polytask.mtopt.config import ImportConfig
from polytask.mtopt.config.action import ActionConfig


class LeRobotReader:
    """Reads a data set file by file."""

    def __init__(self, root: Path, config: ImportConfig, layout: ActionConfig) -> None:
        """Read the description of a data set, which must have actions of a layout.

        Raises:
            UserError: If it cannot be read, has other actions, or has no pictures that can be used.
        """
        check_pyarrow()
        self.root, self._layout = root, layout
        info = read_json(root / INFO, "description of a LeRobot data set", {"codebase_version": str, "features": dict})
        if info["codebase_version"] != VERSION:
            found = info["codebase_version"]
            raise UserError(f"'{root}' has LeRobot's version {found}, not {VERSION}; LeRobot's own scripts convert it")
        self._features: dict[str, Any] = info["features"]
        shape = self._features.get(ACTION, {}).get("shape")
        if shape != [layout.size]:
            raise UserError(f"'{root}' has actions of the shape {shape}; {layout.describe()}")
        self._camera = self._choose(config.camera)
        self._outcome = [self._choose(name) for name in config.outcome_cameras] or [self._camera]

    def __iter__(self) -> Iterator[Incoming]:
        """Read the episodes in order.

        Raises:
            UserError: If a file is missing or damaged, or an episode is too short.
        """
        sentences, whole = self._sentences(), read_whole(self.root / WHOLE)
        yield from once_each(
            (whole.get(number, {}).get("episode"), self._episode(number, rows, sentences, whole.get(number, {})))
            for number, rows in self._episodes()
        )

    def _choose(self, name: str | None) -> str:
        """Return the feature of a camera."""
        cameras = [key for key, one in self._features.items() if one.get("dtype") in ("image", "video")]
        chosen = choose_camera(name, cameras, f"'{self.root}'")
        if self._features[chosen]["dtype"] == "video":
            raise UserError(
                f"'{chosen}' is stored as video, which is not read; record or convert it with use_videos=False"
            )
        return chosen

    def _episodes(self) -> Iterator[tuple[int, dict[str, list[Any]]]]:
        """Yield number and columns of every episode; a file holds whole episodes."""
        wanted = [self._camera, *self._outcome, ACTION, "episode_index", "task_index"]
        wanted += [name for name in (STATE, SUCCESS) if name in self._features]
        for path in sorted(self.root.glob("data/*/*.parquet")):
            table = read_table(path, list(dict.fromkeys(wanted)))
            number = np.array(table["episode_index"])
            starts = np.flatnonzero(np.diff(number, prepend=number[:1] - 1))
            for start, end in zip(starts, [*starts[1:], len(number)], strict=True):
                yield int(number[start]), {name: values[start:end] for name, values in table.items()}

    def _episode(
        self, number: int, rows: dict[str, list[Any]], sentences: dict[int, str], about: dict[str, Any]
    ) -> Incoming:
        """Convert the rows of an episode."""
        name, count = f"episode {number}", len(rows[ACTION])
        if count < 2:
            raise UserError(f"{name} has {count} row; an episode needs two frames, before and after an action")
        actions = np.array(rows[ACTION][:-1], np.float32)
        pictures = [cell["bytes"] for cell in rows[self._camera]]
        if any(data is None for data in pictures):
            raise UserError(f"{name} of '{self.root}' refers to picture files outside its table, which are not read")
        sentence = sentences.get(rows["task_index"][0], "")
        stated = {sentence: any(rows[SUCCESS])} if SUCCESS in rows else {}
        return Incoming(
            name=name,
            task=about.get("task", sentence),
            frames=pictures,
            outcome=about.get("outcome") or [rows[camera][-1]["bytes"] for camera in self._outcome],
            actions=actions,
            policy=about.get("policy", "import"),
            seed=about.get("seed", number),
            success=stated,
            **hand(actions, self._hand(rows), name, self._layout),
        )

    def _hand(self, rows: dict[str, list[Any]]) -> dict[str, NDArray[np.float32]]:
        """Return what the state says about gripper, height and pose, by the names of its numbers."""
        names = self._features.get(STATE, {}).get("names")
        if not isinstance(names, list):
            return {}
        state = np.array(rows[STATE], np.float32)
        found = {name: state[:, names.index(name)] for name in ("closed", "height") if name in names}
        if all(name in names for name in POSE_NAMES):
            found["pose"] = state[:, [names.index(name) for name in POSE_NAMES]]
        return found

    def _sentences(self) -> dict[int, str]:
        """Return the sentences of the tasks by number."""
        table = read_table(self.root / TASKS)
        words = table.get(SENTENCE) or table.get("task") or [""] * len(table["task_index"])
        return dict(zip(table["task_index"], words, strict=True))
