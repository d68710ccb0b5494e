"""Read and write files: a write is complete or has no effect, and a missing or damaged file is a one-line error."""

from __future__ import annotations

import json
import math
import os
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from polytask.errors import UserError

LogRow = dict[str, float | int | None]  # one line of a log: numbers by name

# What torch raises for files that are truncated or of another kind.
_UNREADABLE = (RuntimeError, pickle.UnpicklingError, EOFError, OSError, ValueError, KeyError)


def write_atomically(path: Path, write: Callable[[Path], Any]) -> None:
    """Call `write` with a temporary path beside `path`, then rename the temporary file to `path`.

    If the process is killed at any moment, `path` is either the complete old file or the complete new one.
    """
    temporary = path.with_name(f".{path.name}.part")
    write(temporary)
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)  # so that the rename survives a power cut
    finally:
        os.close(directory)


def write_text(path: Path, text: str) -> None:
    """Write a text file, atomically."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def make_folder(path: Path) -> None:
    """Create a folder and its parents.

    Raises:
        UserError: If the operating system refuses.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder '{path}': {error.strerror}") from error


# Tensors


def save_tensors(path: Path, state: dict[str, Any]) -> None:
    """Write a file of tensors and plain values, atomically."""
    write_atomically(path, lambda temporary: torch.save(state, temporary))


def load_tensors(path: Path, what: str, **header: Any) -> dict[str, Any]:
    """Read a file of tensors and plain values into CPU memory, without running any code in the file.

    Args:
        path: The file.
        what: The kind of file, for messages, such as "checkpoint".
        header: Entries that a file of this kind must have, such as its format.

    Raises:
        UserError: If there is no such file, it cannot be read, or it is of another kind.
    """
    if not path.is_file():
        raise UserError(f"no {what} at '{path}'")
    try:
        with warnings.catch_warnings(action="ignore"):  # torch warns about odd files before it fails
            state = torch.load(path, map_location="cpu", weights_only=True)
    except _UNREADABLE as error:
        raise UserError(f"'{path}' cannot be read: it is truncated or not a {what}") from error
    if not isinstance(state, dict) or any(state.get(name) != value for name, value in header.items()):
        expected = ", ".join(f"{name} {value}" for name, value in header.items())
        raise UserError(f"'{path}' is not a {what} ({expected})")
    return state


def restore(part: Any, state: dict[str, Any], name: str) -> None:
    """Load the saved state of one part of a run.

    Raises:
        UserError: If the state has another shape. The message contains `name`, the name of the part.
    """
    try:
        part.load_state_dict(state)
    except (RuntimeError, KeyError, ValueError, TypeError, IndexError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        # torch's message begins with a headline that ends in a colon. The first error is on the next line.
        reason = next((line for line in lines if not line.endswith(":")), type(error).__name__)
        raise UserError(f"the checkpoint does not fit: its {name} has another shape ({reason})") from error


# JSON


def finite(value: Any) -> Any:
    """Replace NaN and infinity, which JSON does not have, by None."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return value


class JsonLines:
    """A file to which rows are appended, one JSON object per line. Written lines survive a crash."""

    def __init__(self, path: Path, keep: list[LogRow]) -> None:
        """Create the file with the rows in `keep`, which an earlier part of the run wrote."""
        write_text(path, "".join(json.dumps(finite(row)) + "\n" for row in keep))
        self._file = path.open("a")

    def write(self, row: LogRow) -> None:
        """Append one row and flush the file."""
        self._file.write(json.dumps(finite(row)) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_json_lines(path: Path, until: int | None = None) -> list[LogRow]:
    """Read the rows of a log up to and including iteration `until`. Stop at an incomplete line, which a kill leaves."""
    rows: list[LogRow] = []
    for line in path.read_text().splitlines() if path.is_file() else []:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            break
        if until is not None and row["iteration"] > until:
            break
        rows.append(row)
    return rows
