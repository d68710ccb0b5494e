"""Write the help of commands, from the table of commands and the classes of their settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from polytask.cli.commands import COMMANDS
from polytask.errors import UserError, require_known, suggest
from polytask.settings import choices_of, default_of


def overview(family: str | None = None) -> str:
    """Return the text of `polytask --help`, or of the help of a family of commands."""
    shown = {name: each for name, each in COMMANDS.items() if family is None or name.startswith(f"{family} ")}
    first = f"{family} <command>" if family else "<command>"
    lines = ["Multi-task reinforcement learning for robots.", "", f"usage: polytask {first} [key=value ...]", ""]
    lines += [f"  {name:14} {command.about}" for name, command in shown.items()]
    lines += ["", "examples:", *(f"  {command.examples[0]}" for command in shown.values())]
    lines += ["", "`polytask <command> --help` lists a command's keys. POLYTASK_DEBUG=1 shows tracebacks."]
    return "\n".join(lines) + "\n"


def help_of(command: str, words: Sequence[str] = ()) -> str:
    """Return the help of one command.

    Args:
        command: Its name.
        words: Words of the command line. Parts among them have their settings listed instead of the command's: entries
            of groups, such as `algo=sac`, and nested settings, such as `learner` or `learner.network`. Other
            `key=value` words are ignored, so that `--help` can be added to any command line.

    Raises:
        UserError: If there is no such entry or part.
    """
    chosen = COMMANDS[command]
    given = {each.name: each for each in fields(chosen.schema)}
    kind = f"{'|'.join(choices_of(chosen.schema, chosen.positional)[:2])}|... " if chosen.positional else ""
    lines = [f"{chosen.about}.", "", f"usage: polytask {command} {kind}[key=value ...]", ""]
    groups = [name for name, each in given.items() if each.metadata.get("group") is not None]
    words = words[1:] if chosen.positional else words
    parts = [_part(chosen.schema, word) for word in words if "=" not in word or word.partition("=")[0] in groups]
    if parts:
        for name, config in parts:
            lines += [f"{name}: {_summary(config)}", *_keys(config, f"{name.partition('=')[0]}."), ""]
        return "\n".join(lines)
    lines += ["keys:", *_keys(chosen.schema)]
    if more := [name for name, each in given.items() if _has_parts(each)]:
        example = " ".join(f"{name}=NAME" if name in groups else name for name in more[:2])
        lines += ["", f"`polytask {command} --help {example}` lists the settings of a part."]
    return "\n".join([*lines, "", "examples:", *(f"  {each}" for each in chosen.examples)]) + "\n"


def _keys(config: type[Any], prefix: str = "") -> list[str]:
    """Return one line for each setting of a class."""
    rows = [
        (prefix + each.name, _default(default_of(each)), each.metadata["about"])
        for each in fields(config)
        if "about" in each.metadata
    ]
    if not prefix and config.preset_folder:
        rows.append(("preset", "-", "named settings to start from (polytask list presets)"))
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    return [f"  {name:{widths[0]}}  {default:{widths[1]}}  {about}" for name, default, about in rows]


def _default(value: Any) -> str:
    """Format a default value. A part with nested settings is written as "..."."""
    if is_dataclass(value):
        return "..."
    return "-" if value in (None, "", []) else str(value).lower() if isinstance(value, bool) else str(value)


def _has_parts(each: Any) -> bool:
    """Return whether a setting has nested settings."""
    return each.metadata.get("group") is not None or is_dataclass(default_of(each))


def _part(schema: type[Any], word: str) -> tuple[str, type[Any]]:
    """Return the full name and the config class of a part such as `algo=sac` or `learner.network`."""
    name, _, option = word.partition("=")
    config, path = schema, name.split(".")
    for depth, part in enumerate(path):
        known = {each.name: each for each in fields(config) if _has_parts(each)}
        if part not in known:
            hint = f"; {suggest(part, known)}" if known else ""
            raise UserError(f"'{word}' has no nested settings{hint}")
        group = known[part].metadata.get("group")
        if group is not None:
            from polytask.config.groups import GROUPS  # imports torch

            options = GROUPS[group]
            chosen = option or default_of(known[part]) or next(iter(options))
            config = options[require_known(part, chosen, options)]
            name = ".".join(path[: depth + 1]) + f"={chosen}"
        else:
            config = type(default_of(known[part]))
    return name, config


def _summary(config: type[Any]) -> str:
    """Return the first line of a class's docstring."""
    return (config.__doc__ or "").splitlines()[0]
