"""Declare a setting as a dataclass field with a default and one line of help, which `--help` prints.

Every configuration class in every layer declares its fields this way. So a setting is documented once, the user sees
the text, and one function checks the values that have a fixed list of choices.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any, ClassVar

from polytask.errors import UserError, suggest


def setting(
    default: Any,
    about: str,
    *,
    choices: Collection[str] | None = None,
    group: str | None = None,
    is_path: bool = False,
) -> Any:
    """Declare a field.

    Args:
        default: The value unless the user sets another. A list is copied for every object, and a class is called.
        about: One line for `--help`: the meaning, the unit and the valid values.
        choices: The valid words, if the field has a fixed list of them.
        group: Name of the table that the value is chosen from. The field then holds the config of the chosen entry,
            and `default` is the name of an entry.
        is_path: The value is a file or folder name, which is used exactly as typed.
    """
    metadata = {"about": about, "choices": choices, "group": group, "is_path": is_path}
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    if isinstance(default, type):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def default_of(each: Any) -> Any:
    """Return the default value of a dataclass field."""
    return each.default_factory() if each.default_factory is not MISSING else each.default


def check_choices(config: Any, prefix: str = "") -> None:
    """Check all values of a config, and of the configs inside it, that have a fixed list of choices.

    Raises:
        UserError: If a value is not one of its choices.
    """
    for each in fields(config):
        value, choices = getattr(config, each.name), each.metadata.get("choices")
        if is_dataclass(value):
            check_choices(value, f"{prefix}{each.name}.")
        elif choices is not None and value is not None and value not in choices:
            raise UserError(f"unknown {prefix}{each.name} '{value}'; {suggest(value, choices)}")


@dataclass
class CommandConfig:
    """The settings that every command has."""

    preset_folder: ClassVar[str] = ""  # folder of the presets that `preset=NAME` chooses from (empty: no presets)

    format: str = setting("table", "table, or json: one object on stdout", choices=("table", "json"))
