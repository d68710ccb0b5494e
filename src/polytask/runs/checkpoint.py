"""Save and load everything a run needs to go on.

A checkpoint is written to a temporary file, forced to disk and renamed, so a kill at any moment leaves either the
previous checkpoint or the new one, whole. It holds tensors and plain values only and is loaded with
`weights_only=True`: opening a stranger's file runs none of its code.
"""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from polytask.errors import UserError

FILE_NAME = "checkpoint.pt"
FORMAT = 1  # raised when the layout of the file changes


def locate(path: str | Path) -> Path:
    """Find the checkpoint file that a user means by a file or a run directory."""
    given = Path(path).expanduser()
    file = given / FILE_NAME if given.is_dir() else given
    if not file.is_file():
        raise UserError(f"no checkpoint at '{file}'")
    return file


def save(path: Path, state: dict[str, Any]) -> None:
    """Replace the checkpoint at `path` in one step."""
    write_atomically(path, lambda temporary: torch.save({"format": FORMAT, **state}, temporary))


def write_atomically(path: Path, write: Callable[[Path], Any]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in its place."""
    temporary = path.with_name(f".{path.name}.part")
    write(temporary)
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)  # the rename itself must survive a power cut
    finally:
        os.close(directory)


def load(path: str | Path) -> dict[str, Any]:
    """Read a checkpoint into CPU tensors and plain values.

    Raises:
        UserError: If there is none, or it cannot be read.
    """
    file = locate(path)
    try:
        with warnings.catch_warnings(action="ignore"):  # on odd files torch warns before it fails
            state = torch.load(file, map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError, OSError, ValueError, KeyError) as error:
        raise UserError(f"'{file}' cannot be read: it is truncated or no checkpoint") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise UserError(f"'{file}' is not a polytask checkpoint of format {FORMAT}")
    return state


def restore(part: Any, state: dict[str, Any], name: str) -> None:
    """Load the state of one part of a run; a state of another shape is the user's mistake, not a crash."""
    try:
        part.load_state_dict(state)
    except (RuntimeError, KeyError, ValueError, TypeError, IndexError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        # torch opens with a headline that ends in a colon; the first thing that went wrong follows.
        reason = next((line for line in lines if not line.endswith(":")), type(error).__name__)
        raise UserError(f"the checkpoint does not fit: its {name} is of another shape ({reason})") from error
