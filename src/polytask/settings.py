"""How a setting is declared: a dataclass field with a default and one line of help, which `--help` prints.

Every configuration class declares its fields this way, in whatever layer it lies. So a setting is documented once, the
text reaches the user, and one function checks the values that have a fixed list of choices.
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
        default: Its value unless the user sets it. A list is copied for every object, and a class is called.
        about: One line for `--help`: what it means, its unit, what is valid.
        choices: The words that are valid, if they are few.
        group: The table that the value is chosen from, for a field that holds the config of the entry chosen. Its
            default is the name of an entry.
        is_path: The value is a file or folder name, which is taken as it is typed.
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
    """Check all words of a config, and of the configs inside it, that have a fixed list of choices.

    Raises:
        UserError: If a word is not one of its choices.
    """
    for each in fields(config):
        value, choices = getattr(config, each.name), each.metadata.get("choices")
        if is_dataclass(value):
            check_choices(value, f"{prefix}{each.name}.")
        elif choices is not None and value is not None and value not in choices:
            raise UserError(f"unknown {prefix}{each.name} '{value}'; {suggest(value, choices)}")


@dataclass
class CommandConfig:
    """What every command takes."""

    preset_folder: ClassVar[str] = ""  # folder of the presets that `preset=NAME` chooses from; empty: there are none

    format: str = setting("table", "table, or json: one object on stdout", choices=("table", "json"))
