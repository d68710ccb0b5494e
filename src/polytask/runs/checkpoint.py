"""The checkpoint of a run: one file with everything that is needed to continue.

It contains only tensors and plain values. So opening a file from an untrusted source runs no code in it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from polytask.errors import UserError
from polytask.files import load_tensors, save_tensors
from polytask.runs.file_names import CHECKPOINT_FILE

FORMAT = 1  # increased when the layout of the file changes


def locate(path: str | Path) -> Path:
    """Return the checkpoint file for a path to a file or to a run directory."""
    given = Path(path).expanduser()
    file = given / CHECKPOINT_FILE if given.is_dir() else given
    if not file.is_file():
        raise UserError(f"no checkpoint at '{file}'")
    return file


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint to `path`, atomically."""
    save_tensors(path, {"format": FORMAT, **state})


def load(path: str | Path) -> dict[str, Any]:
    """Read a checkpoint into CPU tensors and plain values.

    Raises:
        UserError: If there is no checkpoint, or it cannot be read.
    """
    return load_tensors(locate(path), "polytask checkpoint", format=FORMAT)


def saved_settings(config: Any) -> dict[str, Any] | None:
    """Return the settings of the run that a command continues or uses, if it names one."""
    if config.checkpoint is None:
        return None
    settings: dict[str, Any] = load(config.checkpoint)["config"]
    return settings
