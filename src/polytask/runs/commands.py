"""The command that repeats a run, from its saved settings, and the words that later commands of a run need."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from functools import cache
from typing import Any

from polytask.config.compose import compose, groups_of, to_plain
from polytask.config.schema import TrainConfig
from polytask.config.values import quote
from polytask.errors import UserError
from polytask.plugins.loading import installed

NOT_REPEATED = ("run_dir", "checkpoint", "format")
_PLAIN = re.compile(r"[\w./:+~-]+")


def command_of(config: dict[str, Any], preset: str | None = None) -> str | None:
    """Return the command with which a run can be repeated: a preset, if it is known, and what differs from it.

    Returns:
        The command, or None if this version cannot have such settings.
    """
    words = [] if preset is None else [f"preset={preset}"]
    try:
        for name in groups_of(TrainConfig):
            chosen, usual = _name(config.get(name)), _name(_composed(tuple(words))[name])
            if chosen != usual:
                words.append(f"{name}={'null' if chosen is None else chosen}")
        words += _changes(config, _composed(tuple(words)))
    except UserError:  # the settings do not exist any more, or do not go with the preset
        return None if preset is None else command_of(config)
    return shlex.join(["polytask", "train", *words])


def plugin_words(needs: Mapping[str, str]) -> list[str]:
    """Return the word, quoted for a shell, that gives a command the plug-ins of a run, if it must name any.

    Installed ones are imported anyway, and what a script itself registered cannot be named.

    Args:
        needs: What `used_plugins` returns.
    """
    named = [origin for origin in dict.fromkeys(needs.values()) if origin not in {"__main__", *installed()}]
    return [shlex.quote(f"plugins={_text(named)}")] if named else []


@cache
def _composed(words: tuple[str, ...]) -> dict[str, Any]:
    return to_plain(compose(TrainConfig, list(words)))


def _name(option: Any) -> str | None:
    return option.get("name") if isinstance(option, dict) else None


def _changes(config: dict[str, Any], usual: dict[str, Any], prefix: str = "") -> list[str]:
    """Return the words that turn the usual settings into those of a run. Keys that no longer exist are left out."""
    words: list[str] = []
    for name, value in usual.items():
        if name not in config or name in NOT_REPEATED:
            continue
        if isinstance(value, dict) and isinstance(config[name], dict):
            words += _changes(config[name], value, f"{prefix}{name}.")
        elif config[name] != value and not (prefix and name == "name"):
            words.append(f"{prefix}{name}={_text(config[name])}")
    return words


def _text(value: Any) -> str:
    """Write a value so that `polytask` reads it as the same value."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)  # null, true, false
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_text, value))}]"
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) and value != "null" else quote(value)
    return repr(value)
