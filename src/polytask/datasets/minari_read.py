"""Read the episodes of Minari data sets for MT-Opt: our own, or those of any robot with our actions.

The folder is one data set, or holds several, as `mtopt export` writes one for each task. Pictures are entries of the
observation. Gripper and height are its entries `closed` and `height`; the pose and whether the task succeeded are the
infos `pose` and `success`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from polytask.datasets.incoming import Incoming, choose_camera, hand, numbers
from polytask.datasets.lerobot import check_pyarrow
from polytask.datasets.minari import check_minari
from polytask.datasets.mtopt_minari import POSE, SUCCESS, WHOLE, task_of
from polytask.datasets.mtopt_whole import once_each, read_whole
from polytask.errors import UserError
from polytask.files import read_json
from polytask.mtopt.config import ImportConfig
from polytask.mtopt.config.action import ActionConfig
from polytask.mtopt.store import png

FILE = Path("data") / "metadata.json"
# Without the spaces, Minari would build the environment that the data set names, that is, run code which it chooses.
_FIELDS = {
    "dataset_id": str,
    "data_format": str,
    "total_episodes": int,
    "observation_space": str,
    "action_space": str,
}


class MinariReader:
    """Reads data sets one after the other, and each episode by episode."""

    def __init__(self, root: Path, config: ImportConfig, layout: ActionConfig) -> None:
        """Find the data sets in a folder, which must have actions of a layout.

        Raises:
            UserError: If there is none.
        """
        check_minari()
        check_pyarrow()
        self._config, self._layout = config, layout
        self._roots = sorted(path.parents[1] for path in root.rglob(str(FILE)))
        if not self._roots:
            raise UserError(
                f"'{root}' has no Minari data set: there is no '{root / FILE}', and none in a folder below it"
            )

    def __iter__(self) -> Iterator[Incoming]:
        """Read the episodes of all data sets.

        Raises:
            UserError: If a file is missing or damaged, or a data set has other actions or no pictures that can be used.
        """
        yield from once_each(copy for root in self._roots for copy in self._dataset(root))

    def _dataset(self, root: Path) -> Iterator[tuple[int | None, Incoming]]:
        """Yield the episodes of one data set, ours with their numbers in the store."""
        about = read_json(root / FILE, "description of a Minari data set", _FIELDS)
        task, whole = task_of(about["dataset_id"]), read_whole(root / WHOLE)
        for number, found in enumerate(_read(root, about["total_episodes"])):
            row = whole.get(number, {})
            yield row.get("episode"), self._episode(f"episode {number} of '{root}'", task, found, row)

    def _episode(self, name: str, task: str, found: dict[str, Any], row: dict[str, Any]) -> Incoming:
        """Convert one episode."""
        seen, infos = found["observations"], found["infos"] or {}
        seen = seen if isinstance(seen, dict) else {"observation": seen}
        cameras = [key for key, entry in seen.items() if _is_pictures(entry)]
        camera = choose_camera(self._config.camera, cameras, name)
        views = [choose_camera(view, cameras, name) for view in self._config.outcome_cameras] or [camera]
        actions = numbers(found["actions"], (None, self._layout.size), f"{name}: actions", self._layout.describe())
        if len(seen[camera]) != len(actions) + 1:
            count = f"{len(seen[camera])} frames and {len(actions)} actions"
            raise UserError(f"{name} has {count}; there must be one frame more")
        state = {key: _column(seen[key]) for key in ("closed", "height") if key in seen}
        return Incoming(
            name=name,
            task=row.get("task", task),
            frames=[png.encode(frame) for frame in seen[camera]],
            outcome=row.get("outcome") or [png.encode(seen[view][-1]) for view in views],
            actions=actions,
            policy=row.get("policy", "import"),
            seed=row.get("seed", found["seed"]),
            success={task: bool(np.any(infos[SUCCESS]))} if SUCCESS in infos else {},
            **hand(actions, {**state, "pose": infos.get(POSE)}, name, self._layout),
        )


def _read(root: Path, count: int) -> Iterator[dict[str, Any]]:
    """Read the episodes of a data set.

    Raises:
        UserError: If it is damaged, or Minari cannot read it.
    """
    from minari.dataset.minari_storage import MinariStorage

    try:
        storage = MinariStorage.read(root / "data")
        for number in range(count):
            (found,), (about,) = storage.get_episodes([number]), storage.get_episode_metadata([number])
            yield {**found, "seed": about.get("seed", number)}
    # what Minari, h5py and pyarrow raise for files that are not as they wrote them
    except (AssertionError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error.args[0] if error.args else "").partition("\n")[0] or "it has another layout"
        raise UserError(f"'{root}' is damaged or no data set of this version of Minari: {reason}") from error


def _is_pictures(entry: Any) -> bool:
    return isinstance(entry, np.ndarray) and entry.dtype == np.uint8 and entry.ndim == 4 and entry.shape[-1] == 3


def _column(entry: Any) -> Any:
    """Return one number per frame, where each is a row of one number."""
    return entry[:, 0] if np.shape(entry)[1:] == (1,) else entry
