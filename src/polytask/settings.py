"""Declare a setting as a dataclass field with a default and one line of help, which `--help` prints.

Every configuration class in every layer declares its fields this way. So a setting is documented once, the user sees
the text, and one function checks the values of all settings.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping, MutableMapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar, TypedDict, Unpack

from polytask.errors import UserError, shown, suggest

MAX_SEED = 2**32 - 1  # what every random generator in use accepts
MAX_INT = 2**63 - 1  # what torch, NumPy and MuJoCo can store
MAX_FLOAT = 3.4028234663852886e38  # the largest number in single precision
MAX_NAME = 255  # bytes in a file name, and
MAX_PATH = 4095  # bytes in a path, on the usual file systems


class Range(TypedDict, total=False):
    """The valid numbers. It applies to a number, or to every number in a list."""

    at_least: float
    above: float  # greater than, not equal
    at_most: float  # with `math.inf` the number may be infinite; otherwise numbers are finite
    below: float


class Facts(Range, total=False):
    """What a field may declare about its values."""

    choices: Collection[str] | None  # the valid words, if there is a fixed list of them
    is_free: bool  # any finite number is valid
    min_length: int  # of a list
    group: str | None  # table that the value is chosen from: the field holds the config of the chosen entry
    is_path: bool  # the value is a file or folder name, which is used exactly as typed
    is_in_frames: (
        bool  # the value counts frames of the run; a run of half the frames, otherwise the same, has half of it
    )
    is_transient: bool  # the value belongs to one command; a run that is continued or used does not pass it on


def setting(default: Any, about: str, *, within: tuple[float, float] | None = None, **facts: Unpack[Facts]) -> Any:
    """Declare a field.

    Args:
        default: The value unless the user sets another. A list is copied for every object, and a class is called. With
            `group` it is the name of an entry.
        about: One line for `--help`: the meaning, the unit and the valid values.
        within: The least and the largest valid number: short for `at_least` and `at_most`.
        facts: What is known about the values, see `Facts`.
    """
    metadata: dict[str, Any] = {"about": about, **facts}
    if within is not None:
        metadata["at_least"], metadata["at_most"] = within
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    if isinstance(default, type):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def with_default(base: type[Any], name: str, default: Any) -> Any:
    """Declare a field of a base class again, with another default and the same help and range."""
    (inherited,) = (each for each in fields(base) if each.name == name)
    return setting(default, **inherited.metadata)


def default_of(each: Any) -> Any:
    """Return the default value of a dataclass field."""
    return each.default_factory() if each.default_factory is not MISSING else each.default


def choices_of(schema: type[Any], name: str) -> list[str]:
    """Return the valid words of a setting; none if it has no fixed list of them."""
    return next(list(each.metadata.get("choices") or ()) for each in fields(schema) if each.name == name)


def fill(config: MutableMapping[Any, Any], saved: Mapping[Any, Any]) -> None:
    """Copy saved values into a config, also into the configs inside it. Keys that it does not have are skipped."""
    for name, value in saved.items():
        if name not in config:
            continue
        if isinstance(value, Mapping) and isinstance(config[name], MutableMapping):
            fill(config[name], value)
        else:
            config[name] = value


# Check values


def check_values(config: Any, prefix: str = "") -> None:
    """Check all values of a config, and of the configs inside it, against what their fields declare.

    A config whose values also depend on each other has a method `check_together(prefix)`, which is called last.

    Raises:
        UserError: If a value is not one of its choices, not in its range, not finite, or not a possible path.
    """
    typed = {name: word for word, name in getattr(config, "reserved", {}).items()}  # the word that people know
    for each in fields(config):
        key, value = f"{prefix}{typed.get(each.name, each.name)}", getattr(config, each.name)
        if is_dataclass(value):
            check_values(value, f"{key}.")
            continue
        if isinstance(value, list | tuple) and len(value) < each.metadata.get("min_length", 0):
            raise UserError(f"{key} is empty; give at least one entry")
        for one in value if isinstance(value, list | tuple) else [value]:
            check_value(key, one, each.metadata)
    if hasattr(config, "check_together"):
        config.check_together(prefix)


def in_frames(config: Any, prefix: str = "") -> dict[str, int]:
    """Return the settings that count frames of the run, if they are set, also those of the configs inside a config."""
    found: dict[str, int] = {}
    for each in fields(config):
        key, value = f"{prefix}{each.name}", getattr(config, each.name)
        if is_dataclass(value):
            found |= in_frames(value, f"{key}.")
        elif each.metadata.get("is_in_frames") and value:
            found[key] = value
    return found


def check_value(key: str, value: Any, facts: Mapping[str, Any]) -> None:
    """Check one value, or one entry of a list, against the declaration of its field."""
    choices = facts.get("choices")
    if choices is not None and value is not None and value not in choices:
        raise UserError(f"{key}={shown(value)} is not valid; {suggest(value, choices)}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        _check_number(key, value, facts)
    elif isinstance(value, str):
        _check_text(key, value, is_path=facts.get("is_path", False))


def _check_number(key: str, value: float, facts: Mapping[str, Any]) -> None:
    """Check that a number is finite, fits into 64 bits and lies in its range."""
    most = MAX_INT if isinstance(value, int) else MAX_FLOAT
    at_least, above, below = facts.get("at_least", -most), facts.get("above", -math.inf), facts.get("below", math.inf)
    if not (at_least <= value <= facts.get("at_most", most) and above < value and (value < below or value == math.inf)):
        if isinstance(value, int) and value > most:
            facts = {"at_most": most, **facts}
        raise UserError(f"{key}={shown(value)} is not valid; it must be {range_of(facts)}")


def range_of(facts: Mapping[str, Any]) -> str:
    """Describe a range in words, such as "at least 0 and below 1"."""
    words = {"above": "more than", "at_least": "at least", "at_most": "at most", "below": "less than"}
    parts = [f"{text} {facts[name]}" for name, text in words.items() if name in facts and facts[name] != math.inf]
    return " and ".join(parts) or "a finite number"


def _check_text(key: str, text: str, *, is_path: bool) -> None:
    """Check that a text has no NUL character and, as a path, that the operating system can have such a file."""
    if "\0" in text:
        raise UserError(f"{key} contains a NUL character, which no name can have")
    if not is_path:
        return
    if not text:
        raise UserError(f"{key} is empty; name a file or folder, or leave the key out")
    if max(len(part) for part in os.fsencode(text).split(b"/")) > MAX_NAME or len(os.fsencode(text)) > MAX_PATH:
        raise UserError(f"{key}={shown(text)} is too long: at most {MAX_NAME} bytes per name and {MAX_PATH} in all")
    try:
        Path(text).expanduser()
    except RuntimeError as error:
        raise UserError(f"{key}={shown(text)}: there is no user '{text.partition('/')[0][1:]}'") from error


def require_order(config: Any, prefix: str, low: str, high: str, *, is_strict: bool = False) -> None:
    """Check, in a `check_together`, that one setting is not above another; with `is_strict` also not equal to it.

    Lists are compared entry by entry.
    """
    lower, upper = getattr(config, low), getattr(config, high)
    pairs = zip(lower, upper, strict=False) if isinstance(lower, list | tuple) else [(lower, upper)]
    if any(one > other or (is_strict and one == other) for one, other in pairs):
        word = "below" if is_strict else "at most"
        raise UserError(f"{prefix}{low}={lower} is not valid; it must be {word} {prefix}{high}={upper}")


@dataclass
class CommandConfig:
    """The settings that every command has."""

    preset_folder: ClassVar[str] = ""  # folder of the presets that `preset=NAME` chooses from (empty: no presets)
    renamed: ClassVar[dict[str, str]] = {}  # old name -> present name; old names work and print a note
    reserved: ClassVar[dict[str, str]] = {}  # key that is a word of Python -> name of its field

    plugins: list[str] | None = setting(
        None, "modules or .py files that add tasks, networks and more, such as [my_module]", is_transient=True
    )
    format: str = setting("table", "table, or json: one object on stdout", choices=("table", "json"), is_transient=True)
