"""Turn `key=value` words into a typed config, or into one line that says what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from polytask.config.schema import (
    CHOICES,
    DEFAULTS,
    PATHS,
    PRESET_GROUPS,
    entry_of,
    groups_of,
    names_of,
    preset_group,
    register,
    register_parts,
)
from polytask.errors import UserError

CONF = Path(__file__).parent / "conf"

# Groups that may be left empty.
OPTIONAL = ("critic_net", *PRESET_GROUPS.values())
# Where to write, how to start and how to print belongs to one command, not to what is continued.
TRANSIENT = ("run_dir", "checkpoint", "init_from", "format")
# A key that the user sets makes the saved value of its rival void: the two say the same thing in different ways.
RIVALS = {"suite": "tasks", "num_envs": "envs_per_task", "envs_per_task": "num_envs", "device": "sim"}


def presets(group: str = "experiment") -> dict[str, str]:
    """Map each preset's name to the first comment of its file that describes it."""
    table = {}
    folder = CONF / group
    for path in sorted(folder.rglob("*.yaml")):
        comments = [line[1:].strip() for line in path.read_text().splitlines() if line.startswith("#")]
        name = path.relative_to(folder).with_suffix("").as_posix()
        table[name] = next((line for line in comments if not line.startswith("@")), "")
    return table


def compose(command: str, words: Sequence[str], saved: dict[str, Any] | None = None) -> Any:
    """Compose the config of a command.

    Args:
        command: A key of `SCHEMAS`.
        words: Hydra overrides.
        saved: The config of a checkpoint. It fills every key that the words leave alone, unless they name a preset.

    Returns:
        An instance of the command's dataclass.

    Raises:
        UserError: For an unknown key or option, a value of the wrong type, or a word that cannot be read.
    """
    overrides = _read(command, words)
    saved = {} if saved is None or preset_group(command) in overrides else _left_alone(saved, overrides)
    lines = {group: f"{group}={saved[group]['name']}" for group in groups_of(command) if saved.get(group)}
    lines |= {name: str(override.input_line) for name, override in overrides.items()}
    empty = [name for name in lines if name in OPTIONAL and name in overrides and overrides[name].value() is None]
    for group in empty:  # Hydra cannot choose nothing for a group
        del lines[group]
    config = _compose(command, lines)
    for group in empty:
        if group in config:
            config[group] = None
    _fill(config, saved, explicit=set(overrides))
    return _typed(config)


def to_plain(config: Any) -> dict[str, Any]:
    """Turn a typed config into plain dictionaries and values: what a checkpoint and `config.yaml` hold."""
    plain = OmegaConf.to_container(OmegaConf.structured(config))
    assert isinstance(plain, dict)
    return {str(name): value for name, value in plain.items()}


def suggest(word: str, known: Iterable[str]) -> str:
    """Phrase the nearest known word, or all of them when nothing comes near."""
    names = [str(name) for name in known]
    near = get_close_matches(word, names, n=1, cutoff=0.6)
    return f"did you mean '{near[0]}'?" if near else f"known: {', '.join(names)}"


def quote(text: str) -> str:
    """Write any text so that Hydra's grammar reads it as one string."""
    # Hydra wants quotes escaped, and backslashes only where they stand before a quote.
    escaped = re.sub(r"(\\*)('|$)", lambda match: match[1] * 2 + ("\\'" if match[2] else ""), text)
    return f"'{escaped}'"


def _read(command: str, words: Sequence[str]) -> dict[str, Override]:
    """Parse the words, the last one on a key winning, and check keys and options against the tables."""
    overrides = {override.key_or_group: override for override in map(_parse, words)}
    extra = [group for group in (preset_group(command),) if group]
    for name in overrides:
        _check_name(name, [*names_of(command), *extra])
    options = {**register(), **{group: list(presets(group)) for group in extra}}
    register_parts(command)
    for group in [*groups_of(command), *extra]:
        if group in overrides:
            _check_option(group, overrides[group].value(), options[group])
    return overrides


def _parse(word: str) -> Override:
    """Read one word with Hydra's grammar."""
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise UserError(f"'{word}' is not of the form key=value")
    if name in PATHS and value not in ("", "null") and value[0] not in "'\"":
        word = f"{name}={quote(value)}"
    try:
        override = OverridesParser.create().parse_override(word)
    except HydraException as error:
        raise UserError(f"cannot read '{word}': {_first_line(error)}") from error
    if override.is_sweep_override():
        raise UserError(f"'{word}' names several values; a list is written {name}=[a,b]")
    if override.type is None or override.type.name != "CHANGE":
        raise UserError(f"'{word}': keys are only set, as in key=value; none is added or removed")
    return override


def _check_name(name: str, known: Sequence[str]) -> None:
    """Reject a key whose first part is no field of the command, before anything slow is imported."""
    first, _, rest = name.partition(".")
    if first not in known:
        raise UserError(f"unknown key '{first}'; {suggest(first, known)}")
    if rest == "name" and first in DEFAULTS:
        raise UserError(f"unknown key '{name}'; an option is chosen by {first}=NAME")


def _check_option(group: str, value: Any, options: Sequence[str]) -> None:
    """Reject a group option that is in no table."""
    if value not in options and not (value is None and group in OPTIONAL):
        near = get_close_matches(str(value), options, n=1)
        hint = f" (did you mean '{near[0]}'?)" if near else ""
        raise UserError(f"unknown {group} '{value}'{hint}; known: {', '.join(options)}")


def _check_path(name: str, base: DictConfig) -> None:
    """Reject a dotted key that the composed config does not have."""
    node: Any = base
    parts = name.split(".")
    for depth, part in enumerate(parts if name not in PRESET_GROUPS.values() else []):
        known = [str(each) for each in node if depth == 0 or each != "name"] if isinstance(node, DictConfig) else []
        if part not in known:
            hint = suggest(part, known) if known else f"'{'.'.join(parts[:depth])}' has no settings"
            raise UserError(f"unknown key '{name}'; {hint}")
        node = node[part]


def _compose(command: str, lines: dict[str, str]) -> DictConfig:
    """Call Hydra, and find out what it objects to by composing without the settings."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        try:
            return hydra_compose(entry_of(command), overrides=list(lines.values()))
        except (HydraException, OmegaConfBaseException) as error:
            chosen = [line for name, line in lines.items() if name in (*DEFAULTS, *PRESET_GROUPS.values())]
            with suppress(HydraException, OmegaConfBaseException):
                base = hydra_compose(entry_of(command), overrides=chosen)
                for name in lines:
                    _check_path(name, base)
            raise UserError(_explain(error)) from error


def _left_alone(saved: dict[str, Any], overrides: Collection[str]) -> dict[str, Any]:
    """Keep the saved values that the user neither sets nor makes void."""
    void = {rival for name, rival in RIVALS.items() if name in overrides}
    return {name: value for name, value in saved.items() if name not in {*overrides, *void, *TRANSIENT}}


def _fill(config: DictConfig, saved: dict[str, Any], explicit: set[str], prefix: str = "") -> None:
    """Copy every saved value whose key the config has and the user did not set."""
    for name, value in saved.items():
        path = f"{prefix}{name}"
        if name not in config or path in explicit:
            continue
        if isinstance(value, dict) and isinstance(config[name], DictConfig):
            _fill(config[name], value, explicit, f"{path}.")
        else:
            config[name] = value


def _typed(config: DictConfig) -> Any:
    """Build the dataclasses and check the values that have a fixed list of choices."""
    try:
        result = OmegaConf.to_object(config)
    except OmegaConfBaseException as error:
        raise UserError(_explain(error)) from error
    for name, choices in CHOICES.items():
        value = config.get(name)
        if value is not None and value not in choices:
            raise UserError(f"unknown {name} '{value}'; {suggest(str(value), choices)}")
    return result


def _explain(error: Exception) -> str:
    """Say in one line what Hydra or OmegaConf objects to."""
    cause = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else None
    where = getattr(cause or error, "full_key", None)
    return f"{where}: {_first_line(cause or error)}" if where else _first_line(error)


def _first_line(error: Exception) -> str:
    """Keep the first line of a message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
