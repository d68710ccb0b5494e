"""Files of tensors and plain values with a checksum. Opening one runs no code in it."""

from __future__ import annotations

import hashlib
import os
import warnings
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, cast

import torch

from polytask.errors import UserError
from polytask.files.reading import open_file
from polytask.files.writing import write_atomically

_BLOCK = 1 << 20  # bytes read at once
# A file of tensors is a zip archive, as torch writes it, with a digest of all its bytes as the archive's comment. The
# two bytes before the comment are its length. The digest is computed with the length that torch writes, zero.
# Files of version 0.1 have no comment. The CRC-32 of each of their records is checked instead.
_MARK = b"polytask blake2b "
_DIGEST_BYTES = 32
_COMMENT_BYTES = len(_MARK) + 2 * _DIGEST_BYTES
_LENGTH, _NO_LENGTH = (number.to_bytes(2, "little") for number in (_COMMENT_BYTES, 0))
_ARCHIVE_END = b"PK\5\6"  # the first of the last 22 bytes of an archive without a comment


class _DigestWriter:
    """A file that computes a digest of what is written to it, so that saving takes one pass."""

    def __init__(self, file: BinaryIO) -> None:
        """Write to an open file."""
        self.digest = _new_digest()
        self.error: OSError | None = None  # torch replaces the error of a write by one of its own
        self._file = file

    def write(self, data: Any) -> int:
        """Write bytes."""
        self.digest.update(data)
        try:
            return self._file.write(data)
        except OSError as error:
            self.error = self.error or error
            raise

    def flush(self) -> None:
        """Do nothing: closing the file flushes it."""


def _new_digest() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=_DIGEST_BYTES)


def save_tensors(path: Path, state: dict[str, Any]) -> None:
    """Write a file of tensors and plain values with a checksum, atomically."""
    write_atomically(path, lambda temporary: _save(temporary, state))


def _save(path: Path, state: dict[str, Any]) -> None:
    with path.open("wb") as file:
        writer = _DigestWriter(file)
        try:
            torch.save(state, cast("BinaryIO", writer))
        except RuntimeError:
            if writer.error is not None:
                raise writer.error from None
            raise
        file.seek(-len(_LENGTH), os.SEEK_END)
        file.write(_LENGTH + _MARK + writer.digest.hexdigest().encode())


def load_tensors(path: Path, what: str, **header: Any) -> dict[str, Any]:
    """Read a file of tensors and plain values into CPU memory, without running any code in the file.

    Args:
        path: The file.
        what: The kind of file, for messages, such as "checkpoint".
        header: Entries that a file of this kind must have, such as its format.

    Raises:
        UserError: If there is no such file, it cannot be read, it is damaged, or it is of another kind.
    """
    with open_file(path, what) as file:
        # A file of another kind can raise anything: IndexError, AttributeError, UnpicklingError, BadZipFile, ...
        try:
            is_whole = _has_valid_digest(file)
            with warnings.catch_warnings(action="ignore"):  # torch warns about odd files before it fails
                state = torch.load(path, map_location="cpu", weights_only=True) if is_whole else None
        except Exception as error:
            raise UserError(f"'{path}' cannot be read: it is truncated or not a {what}") from error
    if not is_whole:
        raise UserError(f"'{path}' is damaged: its checksum does not match")
    if not isinstance(state, dict) or not all(_is_equal(state.get(name), value) for name, value in header.items()):
        expected = ", ".join(f"{name} {value}" for name, value in header.items())
        raise UserError(f"'{path}' is not a {what} ({expected})")
    return state


def _is_equal(found: Any, value: Any) -> bool:
    return type(found) is type(value) and bool(found == value)  # a damaged file may have a tensor here


def _has_valid_digest(file: BinaryIO) -> bool:
    """Return whether the content of a file of tensors is the content that was written.

    Raises:
        Exception: If it is not an archive.
    """
    size = file.seek(0, os.SEEK_END)
    end = max(size - _COMMENT_BYTES, len(_LENGTH))
    file.seek(end - len(_LENGTH))
    length, comment = file.read(len(_LENGTH)), file.read()
    if comment.startswith(_MARK):
        digest = _digest_of(file, end - len(_LENGTH))
        digest.update(_NO_LENGTH)
        return length + comment == _LENGTH + _MARK + digest.hexdigest().encode()
    with zipfile.ZipFile(file) as archive:
        file.seek(-22, os.SEEK_END)
        last = file.read()
        has_no_comment = last.startswith(_ARCHIVE_END) and last.endswith(_NO_LENGTH)
        return has_no_comment and archive.testzip() is None


def _digest_of(file: BinaryIO, size: int) -> hashlib.blake2b:
    """Return the digest of the first `size` bytes of a file."""
    digest = _new_digest()
    file.seek(0)
    while size > 0 and (block := file.read(min(size, _BLOCK))):
        digest.update(block)
        size -= len(block)
    return digest


def check_finite(state: Any, path: Path, inside: str = "") -> None:
    """Check that all tensors in the content of a file are finite.

    Args:
        state: The content, or a part of it: tensors and plain values in dictionaries and lists.
        path: The file, for messages.
        inside: The name of the part, with a dot at its end.

    Raises:
        UserError: If one contains NaN or infinity.
    """
    if isinstance(state, torch.Tensor):
        if not state.isfinite().all():
            raise UserError(f"'{path}' holds non-finite weights ({inside.rstrip('.')})")
    elif isinstance(state, dict | list | tuple):
        for name, value in state.items() if isinstance(state, dict) else enumerate(state):
            check_finite(value, path, f"{inside}{name}.")


def restore(part: Any, state: Any, name: str) -> None:
    """Load the saved state of one part of a run.

    Raises:
        UserError: If the state has another shape. The message contains `name`, the name of the part.
    """
    try:
        part.load_state_dict(state)
    except (RuntimeError, LookupError, ValueError, TypeError, AttributeError, ArithmeticError, AssertionError) as error:
        reason = f"field {error} is missing" if isinstance(error, KeyError) else _first_reason(error)
        raise UserError(f"the checkpoint does not fit: its {name} has another shape ({reason})") from error


def _first_reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # torch's message begins with a headline that ends in a colon. The first error is on the next line.
    return next((line for line in lines if not line.endswith(":")), type(error).__name__)
