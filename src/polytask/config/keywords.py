"""Turn Python values, as keyword arguments, into a typed config: the settings and checks of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

from polytask.config.compose import EMPTY, RIVALS, compose, groups_of, names_of
from polytask.config.groups import GROUPS
from polytask.config.presets import PRESET
from polytask.config.values import as_kind
from polytask.errors import UserError, require_known
from polytask.settings import check_values


def configure(schema: type[Any], settings: Mapping[str, Any], saved: dict[str, Any] | None = None) -> Any:
    """Compose the config of a command from Python values.

    Args:
        schema: The command's config class.
        settings: Values by the names of the fields, and perhaps `preset`. A field that chooses from a table, such as
            `algo`, is a name, a config object, or a mapping of settings, in which `name` chooses. A field with settings
            of its own, such as `history`, is a config object or a mapping.
        saved: The config of a checkpoint, which gives the values of all settings that are not named.

    Returns:
        An instance of the class, all of whose values are valid.

    Raises:
        UserError: For an unknown setting, or a value of the wrong type or out of its range.
    """
    for name in settings:
        require_known("setting", name, names_of(schema))
    groups = groups_of(schema)
    words = [f"{PRESET}={settings[PRESET]}"] if settings.get(PRESET) is not None else []
    for name in groups.keys() & settings.keys():
        chosen = _chosen(name, settings[name], groups[name])
        words += [f"{name}={chosen}"] if chosen is not None else []
    config = compose(schema, words, saved=saved)
    hints = get_type_hints(schema)
    for name, value in settings.items():
        rival = RIVALS.get(name)
        if rival in EMPTY and rival not in settings and value is not None:
            setattr(config, rival, None)  # that of the preset or of the checkpoint
        if name in groups or (isinstance(value, Mapping) and is_dataclass(getattr(config, name, None))):
            _fill_group(config, name, value)
        elif name != PRESET:
            setattr(config, name, _value(name, value, hints[name]))
    check_values(config)
    return config


def _chosen(name: str, value: Any, group: str) -> str | None:
    """Return the word that chooses from a table, or None if the value does not choose."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return value.get("name")
    found: str | None = getattr(value, "name", None)
    if GROUPS[group].get(str(found)) is not type(value):
        raise UserError(f"{name} must be a name, a config object or a mapping of settings, not {value!r}")
    return found


def _fill_group(config: Any, name: str, value: Any) -> None:
    """Set the settings of a chosen entry, or of a field with settings of its own."""
    if is_dataclass(value):
        setattr(config, name, value)
    elif isinstance(value, Mapping):
        inside = getattr(config, name)
        if inside is None:
            raise UserError(f"{name} is empty; choose an option, such as {name}={{'name': 'mlp'}}")
        hints = get_type_hints(type(inside))
        for key, one in value.items():
            if key != "name":
                owner = f"{name}={inside.name}" if hasattr(inside, "name") else name
                require_known(f"setting of {owner}", key, [each.name for each in fields(inside)])
                setattr(inside, key, _value(f"{name}.{key}", one, hints[key]))


def _value(key: str, value: Any, kind: Any) -> Any:
    """Return a value as one of the declared type."""
    return as_kind(key, str(value) if isinstance(value, Path) else value, kind, what="")
