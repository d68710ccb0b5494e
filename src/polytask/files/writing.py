"""Write files: a write is complete or has no effect, and what the operating system refuses is a one-line error."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from polytask.errors import UserError
from polytask.files.refusals import explained

_PART = re.compile(r"\..+?(?:\.(\d{1,9}))?\.part")  # a temporary file; older versions wrote no process id


def can_write(path: Path) -> AbstractContextManager[None]:
    """Turn an error of the operating system, such as a full disk, into a `UserError` that names the file."""
    return explained("cannot write", path)


def write_atomically(path: Path, write: Callable[[Path], Any]) -> None:
    """Call `write` with a temporary path beside `path`, then rename the temporary file to `path`.

    If the process is killed at any moment, `path` is either the complete old file or the complete new one. If the write
    fails, the temporary file is removed.

    Raises:
        UserError: If the operating system refuses.
    """
    if not path.name:
        raise UserError(f"cannot write '{path}': it is a folder")
    # The process id keeps two processes that write the same file apart.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    with can_write(path):
        if path.exists() and not path.is_file():  # root could replace a device such as /dev/null
            raise UserError(f"cannot write '{path}': it is not a regular file")
        try:
            write(temporary)
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)  # so that the rename survives a power cut
        finally:
            os.close(directory)


def write_text(path: Path, text: str) -> None:
    """Write a text file, atomically."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def remove_stale_parts(folder: Path) -> None:
    """Remove the temporary files that processes left in a folder when they were killed."""
    for path in folder.glob(".*.part"):
        if _PART.fullmatch(path.name) and not is_being_written(path):
            with can_write(path):
                path.unlink(missing_ok=True)


def is_being_written(part: Path) -> bool:
    """Return whether the process that writes a temporary file is running, as far as its name tells."""
    match = _PART.fullmatch(part.name)
    if match is None or match[1] is None:
        return False
    try:
        os.kill(int(match[1]), 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it belongs to another user
        return True
    return True


def make_folder(path: Path) -> None:
    """Create a folder, to write into it, and its parents.

    Raises:
        UserError: If the operating system refuses, or the folder exists and is read-only.
    """
    with explained("cannot make the folder", path):
        path.mkdir(parents=True, exist_ok=True)
    if not os.access(path, os.W_OK | os.X_OK):
        raise UserError(f"cannot write into the folder '{path}': it is read-only")
