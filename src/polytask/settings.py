"""Declare a setting as a dataclass field with a default and one line of help, which `--help` prints.

Every configuration class in every layer declares its fields this way. So a setting is documented once, the user sees
the text, and one function checks the values that have a fixed list of choices.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping
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
    is_transient: bool = False,
) -> Any:
    """Declare a field.

    Args:
        default: The value unless the user sets another. A list is copied for every object, and a class is called.
        about: One line for `--help`: the meaning, the unit and the valid values.
        choices: The valid words, if the field has a fixed list of them.
        group: Name of the table that the value is chosen from. The field then holds the config of the chosen entry,
            and `default` is the name of an entry.
        is_path: The value is a file or folder name, which is used exactly as typed.
        is_transient: The value belongs to one command. A run that is continued or used does not pass it on.
    """
    metadata = {
        "about": about,
        "choices": choices,
        "group": group,
        "is_path": is_path,
        "is_transient": is_transient,
    }
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    if isinstance(default, type):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def default_of(each: Any) -> Any:
    """Return the default value of a dataclass field."""
    return each.default_factory() if each.default_factory is not MISSING else each.default


def choices_of(schema: type[Any], name: str) -> list[str]:
    """Return the valid words of a setting; none if it has no fixed list of them."""
    return next(list(each.metadata.get("choices") or ()) for each in fields(schema) if each.name == name)


def fill(
    config: MutableMapping[Any, Any], saved: Mapping[Any, Any], explicit: Collection[str] = (), prefix: str = ""
) -> None:
    """Copy saved values into a config, also into the configs inside it. Keys that the config does not have are skipped.

    Args:
        config: The config to change.
        saved: Saved values.
        explicit: Dotted keys that keep their present values, because the user has set them.
        prefix: Dotted key of `config` itself, with a dot at its end.
    """
    for name, value in saved.items():
        path = f"{prefix}{name}"
        if name not in config or path in explicit:
            continue
        if isinstance(value, Mapping) and isinstance(config[name], MutableMapping):
            fill(config[name], value, explicit, f"{path}.")
        else:
            config[name] = value


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
            raise UserError(f"{prefix}{each.name}={value} is not valid; {suggest(value, choices)}")


@dataclass
class CommandConfig:
    """The settings that every command has."""

    preset_folder: ClassVar[str] = ""  # folder of the presets that `preset=NAME` chooses from (empty: no presets)
    renamed: ClassVar[dict[str, str]] = {}  # old name -> present name; old names work and print a note

    format: str = setting("table", "table, or json: one object on stdout", choices=("table", "json"), is_transient=True)
