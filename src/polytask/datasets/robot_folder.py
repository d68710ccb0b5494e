"""Read episodes from a folder of pictures, one folder per episode, as any robot can write them.

DATA/EPISODE/episode.json    task, actions (T x A); optional: closed, height (T + 1), pose (T + 1 x 3: x, y, yaw),
                             success (true or false), seed
DATA/EPISODE/frames/         T + 1 pictures, in the order of their names (PNG, JPEG or WebP)
DATA/EPISODE/outcome/        views of the end, optional; without them, the last frame is the only view
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from polytask.datasets.incoming import Incoming, hand, numbers
from polytask.errors import UserError
from polytask.files import read_json
from polytask.mtopt.config.action import ActionConfig

FILE = "episode.json"
_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
_FIELDS = {
    "task": str,
    "actions": list,
    "closed": list | None,
    "height": list | None,
    "pose": list | None,
    "success": bool | None,
    "seed": int | None,
}


def read_folder(root: Path, layout: ActionConfig) -> Iterator[Incoming]:
    """Read the episodes of a folder, with actions of a layout, in the order of their names.

    Raises:
        UserError: If there is none, or one is not complete.
    """
    folders = sorted(path.parent for path in root.glob(f"*/{FILE}"))
    if not folders:
        raise UserError(f"'{root}' has no episodes: there is no '{root / 'EPISODE' / FILE}'")
    for folder in folders:
        yield _read(folder, layout)


def _read(folder: Path, layout: ActionConfig) -> Incoming:
    """Read one episode."""
    found = read_json(folder / FILE, "description of an episode", _FIELDS)
    name = f"episode '{folder.name}'"
    actions = numbers(found["actions"], (None, layout.size), f"{name}: actions", layout.describe())
    frames, outcome = _pictures(folder / "frames"), _pictures(folder / "outcome")
    if len(frames) != len(actions) + 1:
        raise UserError(f"{name} has {len(frames)} frames and {len(actions)} actions; there must be one frame more")
    success = found.get("success")
    return Incoming(
        name=name,
        task=found["task"],
        frames=frames,
        outcome=outcome or frames[-1:],
        actions=actions,
        seed=found.get("seed") or 0,
        success={} if success is None else {found["task"]: success},
        **hand(actions, found, name, layout),
    )


def _pictures(folder: Path) -> list[bytes]:
    """Read the pictures of a folder; none if there is no such folder."""
    files = sorted(path for path in folder.glob("*") if path.suffix.lower() in _SUFFIXES)
    return [path.read_bytes() for path in files]
