"""Turn `key=value` words into a typed config. A wrong word raises a one-line error."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from polytask.config.presets import CONF, PRESET, presets, store_presets
from polytask.errors import UserError, require_known, suggest
from polytask.result import note
from polytask.settings import check_choices, default_of, fill

# Two keys that set the same thing in different ways. If the user sets the first, the saved value of the second is
# ignored.
RIVALS = {"suite": "tasks", "num_envs": "envs_per_task", "envs_per_task": "num_envs", "device": "sim"}


def compose(schema: type[Any], words: Sequence[str], saved: dict[str, Any] | None = None) -> Any:
    """Compose the config of a command.

    Args:
        schema: The command's config class.
        words: `key=value` words. If a key occurs twice, the last value is used.
        saved: The config of a checkpoint. It gives the values of all keys that the words do not set, unless the words
            name a preset.

    Returns:
        An instance of the class.

    Raises:
        UserError: For an unknown key or option, a value of the wrong type, or a word that cannot be read.
    """
    overrides = _read(schema, words)
    saved = {} if saved is None or PRESET in overrides else _untouched(schema, saved, overrides)
    lines = {group: f"{group}={saved[group]['name']}" for group in groups_of(schema) if saved.get(group)}
    lines |= {name: str(override.input_line) for name, override in overrides.items()}
    empty = [name for name in optional_groups(schema) if name in overrides and overrides[name].value() is None]
    for name in empty:  # Hydra cannot leave a group empty
        del lines[name]
    config = _compose(schema, lines)
    for name in empty:
        if name in config:
            config[name] = None
    try:
        fill(config, saved, explicit=set(overrides))
    except OmegaConfBaseException as error:
        raise UserError(f"a saved setting cannot be used: {_explain(error)}") from error
    return _typed(config)


def to_plain(config: Any) -> dict[str, Any]:
    """Turn a typed config into plain dictionaries and values, as stored in checkpoints and `config.yaml`."""
    plain = OmegaConf.to_container(OmegaConf.structured(config))
    assert isinstance(plain, dict)
    return {str(name): value for name, value in plain.items()}


def quote(text: str) -> str:
    """Quote any text so that Hydra's grammar reads it as one string."""
    # Hydra expects quotes to be escaped, and backslashes only where they precede a quote.
    escaped = re.sub(r"(\\*)('|$)", lambda match: match[1] * 2 + ("\\'" if match[2] else ""), text)
    return f"'{escaped}'"


def names_of(schema: type[Any]) -> list[str]:
    """Return the names of a command's keys."""
    return [each.name for each in fields(schema)] + ([PRESET] if schema.preset_folder else [])


def current_name(schema: type[Any], name: str) -> str:
    """Return the present name of a key. If it is an old name, print a note."""
    if name in schema.renamed:
        note(f"{name}= is now called {schema.renamed[name]}=")
    return str(schema.renamed.get(name, name))


def groups_of(schema: type[Any]) -> dict[str, str]:
    """Return the keys whose value is chosen from a table of configs, each with the name of the table."""
    named = {each.name: each.metadata.get("group") for each in fields(schema)}
    return {name: group for name, group in named.items() if group is not None}


def optional_groups(schema: type[Any]) -> list[str]:
    """Return the names of the groups that may be empty."""
    groups = groups_of(schema)
    empty = [each.name for each in fields(schema) if each.name in groups and default_of(each) is None]
    return [*empty, PRESET] if schema.preset_folder else empty


# Words


def _read(schema: type[Any], words: Sequence[str]) -> dict[str, Override]:
    """Parse the words, and check their keys and options against the tables."""
    overrides = {override.key_or_group: override for override in (_parse(schema, word) for word in words)}
    for name in overrides:
        _check_name(schema, name)
    options = register(schema)
    for group in options.keys() & overrides.keys():
        value = overrides[group].value()
        if value is not None or group not in optional_groups(schema):
            require_known(group, str(value), options[group])
    return overrides


def _parse(schema: type[Any], word: str) -> Override:
    """Parse one word with Hydra's grammar."""
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise UserError(f"'{word}' is not of the form key=value")
    name = current_name(schema, name)
    if name in _paths(schema) and value not in ("", "null") and value[0] not in "'\"":
        value = quote(value)
    word = f"{name}={value}"
    try:
        override = OverridesParser.create().parse_override(word)
    except HydraException as error:
        raise UserError(f"cannot read '{word}': {_first_line(error)}") from error
    if override.is_sweep_override():
        raise UserError(f"'{word}' gives several values; write a list as {name}=[a,b]")
    if override.type is None or override.type.name != "CHANGE":
        raise UserError(f"'{word}': keys can only be set, as in key=value; none can be added or removed")
    return override


def _paths(schema: type[Any]) -> list[str]:
    """Return the keys whose value is a path. Their values are quoted for Hydra, so that any file name works."""
    return [each.name for each in fields(schema) if each.metadata.get("is_path")]


def _check_name(schema: type[Any], name: str) -> None:
    """Check that the first part of a key is a field of the command. This needs no slow import."""
    first, _, rest = name.partition(".")
    require_known("key", first, names_of(schema))
    if rest == "name" and first in groups_of(schema):
        raise UserError(f"unknown key '{name}'; choose an option with {first}=NAME")


# Hydra


_REGISTERED: dict[str, dict[str, list[str]]] = {}  # entry -> group -> names of its options


def register(schema: type[Any]) -> dict[str, list[str]]:
    """Put a command's class, groups and presets into Hydra's store, once, and return the options of each group."""
    if _entry(schema) not in _REGISTERED:
        _REGISTERED[_entry(schema)] = _register(schema)
    return _REGISTERED[_entry(schema)]


def _register(schema: type[Any]) -> dict[str, list[str]]:
    store, entry, tables = ConfigStore.instance(), _entry(schema), dict[str, dict[str, type[Any]]]()
    if groups := groups_of(schema):
        from polytask.config.groups import GROUPS  # imports torch, which commands without groups do not need

        tables = {name: GROUPS[group] for name, group in groups.items()}
    for group, options in tables.items():
        for name, config in options.items():
            store.store(group=group, name=name, node=config)
    store.store(name=f"{entry}_schema", node=schema)
    chosen: list[Any] = [{each.name: default_of(each)} for each in fields(schema) if each.name in groups]
    if schema.preset_folder:
        store_presets()
        chosen.append({schema.preset_folder: None})
    store.store(name=entry, node={"defaults": [f"{entry}_schema", *chosen]})
    known = {group: list(options) for group, options in tables.items()}
    return known | ({PRESET: list(presets(schema.preset_folder))} if schema.preset_folder else {})


def _entry(schema: type[Any]) -> str:
    """Return the name of a command's entry in the store."""
    return f"{schema.__module__}.{schema.__name__}".replace(".", "_")


def _compose(schema: type[Any], lines: dict[str, str]) -> DictConfig:
    """Call Hydra. If it fails, compose again with the groups and the preset only, to find the key that is wrong."""
    if PRESET in lines and schema.preset_folder:
        lines = {**lines, PRESET: schema.preset_folder + lines[PRESET].removeprefix(PRESET)}
    with initialize_config_dir(str(CONF), version_base="1.3"):
        try:
            return hydra_compose(_entry(schema), overrides=list(lines.values()))
        except (HydraException, OmegaConfBaseException) as error:
            chosen = [line for name, line in lines.items() if name in (*groups_of(schema), PRESET)]
            with suppress(HydraException, OmegaConfBaseException):
                base = hydra_compose(_entry(schema), overrides=chosen)
                for name in lines:
                    if name != PRESET:
                        _check_path(name, base)
            raise UserError(_explain(error)) from error


def _check_path(name: str, base: DictConfig) -> None:
    """Check that the composed config has a dotted key."""
    node: Any = base
    parts = name.split(".")
    for depth, part in enumerate(parts):
        known = [str(each) for each in node if depth == 0 or each != "name"] if isinstance(node, DictConfig) else []
        if part not in known:
            hint = suggest(part, known) if known else f"'{'.'.join(parts[:depth])}' has no settings"
            raise UserError(f"unknown key '{name}'; {hint}")
        node = node[part]


# Saved settings


def _untouched(schema: type[Any], saved: dict[str, Any], overrides: Collection[str]) -> dict[str, Any]:
    """Return the saved values to keep: not transient, and the user sets neither the key nor its rival."""
    rivals = {rival for name, rival in RIVALS.items() if name in overrides}
    transient = {each.name for each in fields(schema) if each.metadata.get("is_transient")}
    return {name: value for name, value in upgrade(saved).items() if name not in {*overrides, *rivals, *transient}}


def upgrade(saved: dict[str, Any]) -> dict[str, Any]:
    """Convert settings that version 0.1 saved to the present form.

    Version 0.1 saved a suite and a robot as tables with a name. It also saved manipulation's default robot and goals
    for parkour; they are dropped.
    """
    named = {name: saved[name]["name"] for name in ("suite", "robot") if isinstance(saved.get(name), dict)}
    if "robot" in named:
        defaults = {"robot": "sawyer", "goals": "random"}
        named |= {name: None for name, value in defaults.items() if {**saved, **named}.get(name) == value}
    return {**saved, **named}


# Types


def _typed(config: DictConfig) -> Any:
    """Build the dataclasses and check the values that have a fixed list of choices."""
    try:
        result = OmegaConf.to_object(config)
    except OmegaConfBaseException as error:
        raise UserError(_explain(error)) from error
    check_choices(result)
    return result


def _explain(error: Exception) -> str:
    """Return one line that explains an error of Hydra or OmegaConf."""
    cause = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else None
    where = getattr(cause or error, "full_key", None)
    return f"{where}: {_first_line(cause or error)}" if where else _first_line(error)


def _first_line(error: Exception) -> str:
    """Return the first line of an error's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
