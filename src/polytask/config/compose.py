"""Turn `key=value` words into a typed config. A wrong word raises a one-line error."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, is_dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, get_type_hints

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException

from polytask.config.presets import CONF, PRESET, presets, store_preset
from polytask.config.saved import upgrade
from polytask.config.values import as_kind, parse
from polytask.errors import UserError, require_known, shown, suggest
from polytask.result import note
from polytask.settings import check_values, default_of

# Two keys that set the same thing in different ways. If the user sets the first, the saved value of the second is
# ignored.
RIVALS = {"suite": "tasks", "num_envs": "envs_per_task", "envs_per_task": "num_envs", "device": "sim"}
EMPTY = ("tasks", "num_envs", "envs_per_task")  # the rivals that may be None; the value of a preset is removed, too


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
    given = _read(schema, words)
    chosen = _chosen(schema, given)
    saved = {} if saved is None or PRESET in given else _untouched(schema, saved, given)
    options = {group: saved[group]["name"] for group in groups_of(schema) if saved.get(group)} | chosen
    entries = tuple((group, None if name is None else str(name)) for group, name in options.items())
    result: Any = OmegaConf.to_object(_compose(_entry(schema), schema.preset_folder, entries))
    _fill(result, saved)
    for name, text in given.items():
        if RIVALS.get(name) in EMPTY and RIVALS[name] not in given:
            setattr(result, RIVALS[name], None)  # the preset's
        if name not in chosen:
            _set(result, name, text)
    check_values(result)
    return result


def to_plain(config: Any) -> dict[str, Any]:
    """Turn a typed config into plain dictionaries and values, as stored in checkpoints and `config.yaml`."""
    return asdict(config)


def to_yaml(plain: dict[str, Any]) -> str:
    """Write plain settings as YAML."""
    text: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    return text


def names_of(schema: type[Any]) -> list[str]:
    """Return the names of a command's keys."""
    return [each.name for each in fields(schema)] + ([PRESET] if schema.preset_folder else [])


def current_name(schema: type[Any], name: str) -> str:
    """Return the present name of a key. If it is an old name, print a note."""
    if name in schema.renamed:
        note(f"{name}= is now called {schema.renamed[name]}=")
    return str({**schema.renamed, **schema.reserved}.get(name, name))


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


def _read(schema: type[Any], words: Sequence[str]) -> dict[str, str]:
    """Split the words into keys and texts, and check the first part of each key. This needs no slow import."""
    given = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise UserError(f"'{shown(word)}' is not of the form key=value")
        if name[0] in "+~":
            raise UserError(f"'{shown(word)}': keys can only be set, as in key=value; none can be added or removed")
        name = current_name(schema, name)
        _check_first_part(schema, name)
        given[name] = text
    return given


def _check_first_part(schema: type[Any], name: str) -> None:
    """Check that the first part of a key is a field of the command."""
    known, (first, _, rest) = names_of(schema), name.partition(".")
    if first not in known:
        near = get_close_matches(first, known, n=1, cutoff=0.8 if not rest else 0.6)
        inside = [] if near or rest else _keys_inside(schema, first)
        hint = f"did you mean '{inside[0]}'?" if inside else suggest(first, near or known)
        raise UserError(f"unknown key '{shown(name)}'; {hint}")
    if rest == "name" and first in groups_of(schema):
        raise UserError(f"unknown key '{name}'; choose an option with {first}=NAME")


def _keys_inside(schema: type[Any], name: str) -> list[str]:
    """Return the dotted keys of the default config that end in a name, such as algo.lr for lr."""
    found: list[str] = []

    def walk(config: Any, prefix: str) -> None:
        for each in fields(config):
            value = getattr(config, each.name)
            if is_dataclass(value):
                walk(value, f"{prefix}{each.name}.")
            elif prefix and each.name == name:
                found.append(prefix + name)

    walk(compose(schema, []), "")
    return found


def _chosen(schema: type[Any], given: dict[str, str]) -> dict[str, str | None]:
    """Return the options that the words choose: group -> name, or None if the group is to be empty."""
    options, optional, chosen = register(schema), optional_groups(schema), dict[str, str | None]()
    for group in options.keys() & given.keys():
        name = parse(group, given[group], str | None)
        if name is not None or group not in optional:
            require_known(group, given[group], options[group], hints=3 if group == PRESET else 1)
        chosen[group] = name
    return chosen


def _set(config: Any, name: str, text: str) -> None:
    """Set a dotted key of a config.

    Raises:
        UserError: If there is no such key, or the text is not a value of its type.
    """
    *path, last = name.split(".")
    for depth, part in enumerate(path):
        _check_part(config, path[:depth], part, name)
        config = getattr(config, part)
    _check_part(config, path, last, name)
    if is_dataclass(getattr(config, last)):
        raise UserError(f"'{name}' is a group of settings; set one of them, such as {name}.{fields(config)[0].name}")
    setattr(config, last, parse(name, text, get_type_hints(type(config))[last]))


def _check_part(config: Any, path: Sequence[str], part: str, name: str) -> None:
    """Check that one part of a dotted key exists."""
    if config is None:
        raise UserError(f"unknown key '{name}': {'.'.join(path)} is empty; choose an option with {'.'.join(path)}=NAME")
    known = [each.name for each in fields(config) if not path or each.name != "name"] if is_dataclass(config) else []
    if part not in known:
        prefix = "".join(f"{each}." for each in path)
        hint = suggest(part, known, prefix=prefix) if known else f"'{'.'.join(path)}' has no settings"
        raise UserError(f"unknown key '{shown(name)}'; {hint}")


# Hydra


_REGISTERED: dict[str, dict[str, dict[str, type[Any]]]] = {}  # entry -> group -> name and class of its options


def register(schema: type[Any]) -> dict[str, list[str]]:
    """Put a command's class, groups and presets into Hydra's store, and return the options of each group.

    This is done once, and again after a plug-in has added an option.
    """
    tables = _tables(schema)
    if _REGISTERED.get(_entry(schema)) != tables:
        _register(schema, tables)
        _REGISTERED[_entry(schema)] = {group: dict(options) for group, options in tables.items()}
    known = {group: list(options) for group, options in tables.items()}
    return known | ({PRESET: list(presets(schema.preset_folder))} if schema.preset_folder else {})


def _tables(schema: type[Any]) -> dict[str, dict[str, type[Any]]]:
    """Return the tables that the groups of a command choose from."""
    groups = groups_of(schema)
    if not groups:
        return {}
    from polytask.config.groups import GROUPS  # imports torch, which commands without groups do not need

    return {name: GROUPS[group] for name, group in groups.items()}


def _register(schema: type[Any], tables: dict[str, dict[str, type[Any]]]) -> None:
    """Put a command's class, groups and presets into Hydra's store."""
    store, entry, groups = ConfigStore.instance(), _entry(schema), groups_of(schema)
    for group, options in tables.items():
        for name, config in options.items():
            store.store(group=group, name=name, node=config)
    store.store(name=f"{entry}_schema", node=schema)
    chosen: list[Any] = [{each.name: default_of(each)} for each in fields(schema) if each.name in groups]
    if schema.preset_folder:
        chosen.append({schema.preset_folder: None})
    store.store(name=entry, node={"defaults": [f"{entry}_schema", *chosen]})
    _compose.cache_clear()


def _entry(schema: type[Any]) -> str:
    """Return the name of a command's entry in the store."""
    return f"{schema.__module__}.{schema.__name__}".replace(".", "_")


@lru_cache(maxsize=32)
def _compose(entry: str, folder: str, chosen: tuple[tuple[str, str | None], ...]) -> DictConfig:
    """Let Hydra compose the groups and the preset. It cannot leave a group empty, so this is done afterwards.

    Hydra takes a tenth of a second, so what it composed is kept. No caller may change it.
    """
    options = dict(chosen)
    names = {PRESET: folder}  # a preset's group has the name of its folder
    entries = {group: name for group, name in options.items() if name is not None}
    if folder == PRESET and PRESET in entries:
        entries[PRESET] = store_preset(entries[PRESET])
    lines = [f"{names.get(group, group)}={name}" for group, name in entries.items()]
    with _without_hydra_warnings(), initialize_config_dir(str(CONF), version_base="1.3"):
        try:
            config = hydra_compose(entry, overrides=lines)
        except (HydraException, OmegaConfBaseException) as error:
            raise UserError(_explain(error, options)) from error
    for group, name in options.items():
        if name is None and group in config:
            config[group] = None
    return config


@contextmanager
def _without_hydra_warnings() -> Iterator[None]:
    """Hide what OmegaConf 2.4 deprecates and Hydra 1.3 still uses; no change of ours can avoid it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"register_new_resolver\(\) is deprecated", module=r"hydra\.")
        warnings.filterwarnings("ignore", "Implicit conversion from Version to str", module=r"hydra\.")
        yield


# Saved settings


def _fill(config: Any, saved: Mapping[str, Any], prefix: str = "") -> None:
    """Copy saved values into a config, also into the configs inside it. Keys that it does not have are skipped.

    Raises:
        UserError: If a value has another type than the setting.
    """
    hints = get_type_hints(type(config))
    for name, value in saved.items():
        if name not in hints:
            continue
        inside = getattr(config, name)
        if is_dataclass(inside) and isinstance(value, Mapping):
            _fill(inside, value, f"{prefix}{name}.")
        else:
            setattr(config, name, as_kind(f"{prefix}{name}", value, hints[name]))


def _untouched(schema: type[Any], saved: dict[str, Any], given: Mapping[str, str]) -> dict[str, Any]:
    """Return the saved values to keep: not transient, and the user sets neither the key nor its rival.

    A word that chooses the option that was chosen anyway, such as algo=ppo, sets none of its settings.
    """
    rivals = {rival for name, rival in RIVALS.items() if name in given}
    transient = {each.name for each in fields(schema) if each.metadata.get("is_transient")}
    kept = upgrade(saved)
    same = {name for name, text in given.items() if isinstance(kept.get(name), dict) and kept[name].get("name") == text}
    return {name: value for name, value in kept.items() if name not in {*given.keys() - same, *rivals, *transient}}


# Errors


def _explain(error: Exception, chosen: Mapping[str, str | None]) -> str:
    """Return one line that explains an error of Hydra or OmegaConf.

    Args:
        error: The error.
        chosen: The options that the words choose, by their groups.
    """
    inner = error.__cause__ or error.__context__  # Hydra hides the error of a key behind its own
    cause = inner if isinstance(inner, OmegaConfBaseException) else None
    where = getattr(cause or error, "full_key", None)
    group = str(where).partition(".")[0]
    if isinstance(cause, ConfigKeyError) and chosen.get(PRESET) and chosen.get(group):
        option = f"{group}={chosen[group]}"
        return f"preset={chosen[PRESET]} does not go with {option}: it sets {where}, which {option} does not have"
    reason = (str(cause or error).strip().splitlines() or [type(error).__name__])[0]
    return f"{where}: {reason}" if where else reason
