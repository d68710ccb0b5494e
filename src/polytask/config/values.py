"""Turn the text after `key=` into a value of the declared type. A text that does not fit raises a one-line error.

Nothing is interpolated or evaluated: a text such as `${HOME}` or `???` is only a text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from polytask.errors import UserError, shown

WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def parse(key: str, text: str, kind: Any) -> Any:
    """Read a value.

    Args:
        key: The name of the setting, for messages.
        text: What the user typed after `key=`.
        kind: The declared type: int, float, bool, str, a list of one of them, or a union of these with None.

    Raises:
        UserError: If the text is not a value of this type.
    """
    kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    if NoneType in kinds and text == "null":
        return None
    (kind,) = (each for each in kinds if each is not NoneType)
    try:
        if get_origin(kind) is list:
            (entry,) = get_args(kind)
            return [_READ[entry](each) for each in split_list(text)]
        return _READ[kind](text)
    except ValueError as error:
        raise UserError(f"{key}={shown(text)} is not valid; it must be {_describe(kind)}") from error


def as_kind(key: str, value: Any, kind: Any, what: str = "the saved setting ") -> Any:
    """Return a plain value as a value of the declared type: a whole number may stand for a float.

    Args:
        key: The name of the setting, for messages.
        value: A plain value.
        kind: The declared type, as for `parse`, or Any.
        what: What the message calls the setting, before its name.

    Raises:
        UserError: If the value has another type.
    """
    kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    if kind is Any or (value is None and NoneType in kinds):
        return value
    (kind,) = (each for each in kinds if each is not NoneType)
    if get_origin(kind) is list and isinstance(value, list | tuple):
        return [as_kind(key, each, get_args(kind)[0], what) for each in value]
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise UserError(f"{what}{key}={shown(value)} cannot be used; it must be {_describe(kind)}")
    return value


def quote(text: str) -> str:
    """Quote a text, so that it is read as one value whatever it contains."""
    return "'" + re.sub(r"(['\\])", r"\\\1", text) + "'"


def split_list(text: str) -> list[str]:
    """Return the entries of `[a,b]`, or of `a,b`, without their quotes' escapes resolved.

    Raises:
        ValueError: If a bracket or quote is not closed, or a bracket is inside the list.
    """
    text = text.strip()
    if text.startswith("[") != text.endswith("]"):
        raise ValueError("a bracket is missing")
    inner = text[1:-1] if text.startswith("[") else text
    entries = re.findall(r"""\s*('(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[^,'"\[\]]*)\s*(,|$)""", inner)
    if "".join(entry + comma for entry, comma in entries).replace(" ", "") != inner.replace(" ", ""):
        raise ValueError("a quote is not closed, or a bracket is inside the list")
    found = [entry.strip() for entry, _ in entries]
    while found and not found[-1]:  # a comma at the end, and the empty match after the last entry
        found.pop()
    return found


def _text(text: str) -> str:
    """Remove the quotes around a text, if it has any."""
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return re.sub(r"\\(['\"\\])", r"\1", text[1:-1])
    if text == "null":
        raise ValueError("null is not a text")
    return text


def _whole_number(text: str) -> int:
    """Read a whole number, which may be written as 1_000 or 1e3."""
    if re.fullmatch(r"\s*[+-]?[\d_]+\s*", text):
        return int(text)
    number = float(text)
    if not math.isfinite(number) or number != int(number):
        raise ValueError("not a whole number")
    return int(number)


def _truth(text: str) -> bool:
    try:
        return WORDS[text.strip().lower()]
    except KeyError as error:
        raise ValueError("neither true nor false") from error


_READ: dict[Any, Callable[[str], Any]] = {int: _whole_number, float: float, bool: _truth, str: _text}
_NAMES = {int: "whole number", float: "number", bool: "truth value", str: "text"}


def _describe(kind: Any) -> str:
    """Describe a type in the user's words."""
    if get_origin(kind) is list:
        return f"a list of {_NAMES[get_args(kind)[0]]}s, such as [a,b]"
    return "true or false" if kind is bool else f"a {_NAMES.get(kind, 'table of settings')}"
