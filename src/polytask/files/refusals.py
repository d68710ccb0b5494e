"""Turn what the operating system refuses into a one-line error that names the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from polytask.errors import UserError


@contextmanager
def explained(what: str, path: Path) -> Iterator[None]:
    """Turn an error of the operating system into one line.

    Args:
        what: What was not possible, such as "cannot read".
        path: The file or folder.

    Raises:
        UserError: Instead of any OSError.
    """
    try:
        yield
    except OSError as error:
        raise UserError(f"{what} '{path}': {error.strerror or error}") from error
