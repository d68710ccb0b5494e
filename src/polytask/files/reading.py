"""Open files and check the fields of their content: a missing or damaged file is a one-line error."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import NoneType
from typing import Any, BinaryIO, get_args

import torch

from polytask.errors import UserError
from polytask.files.refusals import explained

# The fields that a file must have, by name: a type, a union of types, the table of the fields of a nested object, or
# a list with the type of every entry. A field that may be None may be missing. A whole number is accepted where a float
# is required.
Fields = Mapping[str, Any]


def can_read(path: Path) -> AbstractContextManager[None]:
    """Turn an error of the operating system into a `UserError` that names the file that is read."""
    return explained("cannot read", path)


def exists(path: Path) -> bool:
    """Return whether there is a file or folder.

    Raises:
        UserError: If the operating system refuses to tell.
    """
    with can_read(path):
        return path.exists()


def open_file(path: Path, what: str) -> BinaryIO:
    """Open a file to read it.

    Raises:
        UserError: If there is no such file, or the operating system refuses.
    """
    with can_read(path):
        try:
            return path.open("rb")
        except FileNotFoundError as error:
            raise UserError(f"no {what} at '{path}'") from error


def check_fields(state: Mapping[str, Any], fields: Fields, path: Path, inside: str = "") -> None:
    """Check that the content of a file has the fields that it must have.

    Args:
        state: The content of the file.
        fields: The required fields and their types.
        path: The file, for messages.
        inside: The name of the nested object that `state` is, with a dot at its end.

    Raises:
        UserError: If a field is missing or has another type.
    """
    for name, expected in fields.items():
        types = _types(expected)
        if name not in state and NoneType not in types:
            raise UserError(f"'{path}' is damaged: field '{inside}{name}' is missing")
        value: Any = state.get(name)
        # A bool is an int in Python, but not in a file.
        accepted = (*types, int) if float in types else types
        is_fitting = isinstance(value, accepted) and (not isinstance(value, bool) or bool in types)
        if not is_fitting:
            wanted = " or ".join(dict.fromkeys(_describe(each) for each in types))
            raise UserError(
                f"'{path}' is damaged: field '{inside}{name}' must be {wanted}, not {_describe(type(value))}"
            )
        if isinstance(expected, Mapping):
            check_fields(value, expected, path, f"{inside}{name}.")
        elif isinstance(expected, list):
            entries = {str(index): entry for index, entry in enumerate(value)}
            check_fields(entries, dict.fromkeys(entries, expected[0]), path, f"{inside}{name}.")


def _types(expected: Any) -> tuple[type, ...]:
    """Return the types that a field may have."""
    if isinstance(expected, Mapping):
        return (dict,)
    return (list, tuple) if isinstance(expected, list) else get_args(expected) or (expected,)


_DESCRIPTIONS: dict[Any, str] = {
    dict: "a table",
    list: "a list",
    tuple: "a list",
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    NoneType: "empty",
    torch.Tensor: "a tensor",
}


def _describe(kind: type) -> str:
    """Describe a type for people who do not know Python."""
    return _DESCRIPTIONS.get(kind, kind.__name__)
