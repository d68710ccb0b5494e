"""Write docs/reference: all commands and settings, from their classes. Run python tools/write_reference.py

The pages say what `--help` says, with the type and the valid values of each setting. A test checks that they are up to
date.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from polytask.cli.commands import COMMANDS
from polytask.config.groups import GROUPS
from polytask.config.presets import presets
from polytask.settings import MAX_SEED, CommandConfig, default_of, range_of

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
WRITTEN = "Written by `python tools/write_reference.py`, not by hand; the test suite checks that it is up to date.\n"
WORDS = {int: "whole number", float: "number", bool: "true or false", str: "text", Any: "name"}
PLACES = {"algo": "algos", "net": "nets"}  # group -> folder of the pages about its entries
TITLES = {"algo": "algorithms", "net": "networks", "grads": "gradient methods", "sim": "simulators"}
RANGE = ("at_least", "above", "at_most", "below")


class Row(NamedTuple):
    """What a reader wants to know about a setting."""

    key: str
    default: str
    valid: str
    about: str


def rows_of(config: type[Any], prefix: str = "") -> Iterator[Row]:
    """Describe the settings of a class, and those of the classes inside it."""
    kinds = get_type_hints(config)
    for each in fields(config):
        if "about" not in each.metadata or (prefix and each.name == "name"):  # an entry's own, which `algo=NAME` sets
            continue
        default, key = default_of(each), prefix + each.name
        if is_dataclass(default):
            yield from rows_of(type(default), f"{key}.")
        else:
            yield Row(key, shown(default), valid(kinds[each.name], each.metadata), each.metadata["about"])


def shown(value: Any) -> str:
    """Write a default as the user would type it; nothing stands for `null`."""
    if value in (None, "", []):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, list | tuple):
        return f"`[{','.join(map(str, value))}]`"
    if isinstance(value, int):
        return f"`{value:_}`"
    return f"`{value}`"


def valid(kind: Any, facts: dict[str, Any]) -> str:
    """Describe the type of a setting, its range and its choices."""
    kinds = [each for each in (get_args(kind) if isinstance(kind, UnionType) else (kind,)) if each is not NoneType]
    is_list = get_origin(kinds[0]) is list
    one = get_args(kinds[0])[0] if is_list else kinds[0]
    if (group := facts.get("group")) is not None:
        return f"one of [{TITLES[group]}]({group}.md)"
    if facts.get("choices"):
        return ("list of " if is_list else "") + ", ".join(f"`{word}`" for word in facts["choices"])
    text = "path" if facts.get("is_path") else WORDS[one]
    if found := {name: facts[name] for name in RANGE if name in facts}:
        text += f", {range_of(found).replace(str(MAX_SEED), '2^32 - 1')}"
    return f"list: {text} each" if is_list else text


def table(rows: Iterable[Row]) -> list[str]:
    """Lay out the settings as a table of Markdown."""
    lines = ["| key | default | valid | meaning |", "|---|---|---|---|"]
    lines += [f"| `{row.key}` | {row.default} | {row.valid} | {plain(row.about)} |" for row in rows]
    return lines


def plain(text: str) -> str:
    """Escape what Markdown or a table would take for its own."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def commands_page() -> str:
    """Return the page of all commands."""
    lines = [
        "# Commands\n",
        WRITTEN,
        "A command takes `key=value` words, in any order: `polytask train suite=mt10 algo.lr=1e-3`. Lists are `[a,b]`.",
        "An empty default means that the key is not set; `null` sets it back to that. `polytask COMMAND --help` prints",
        "the keys too.",
        "\nEvery command has these keys:\n",
        *table(rows_of(CommandConfig)),
        "",
    ]
    described: dict[type[Any], str] = {}
    for name, command in COMMANDS.items():
        lines += [f"## polytask {name}\n", f"{command.about[0].upper()}{plain(command.about[1:])}.\n"]
        lines += ["```bash", *command.examples, "```\n"]
        if (first := described.setdefault(command.schema, name)) != name:
            lines += [f"It has the keys of [polytask {first}](#polytask-{first.replace(' ', '-')}).\n"]
            continue
        shared = {row.key for row in rows_of(CommandConfig)}
        rows = [row for row in rows_of(command.schema) if row.key not in shared]
        lines += table(rows) if rows else ["It has no keys of its own."]
        if folder := command.schema.preset_folder:
            listed = (
                "[presets](../presets.md)" if folder == "preset" else ", ".join(f"`{one}`" for one in presets(folder))
            )
            lines.append(f"| `preset` | | {listed} | named settings to start from |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def group_page(group: str) -> str:
    """Return the page of the settings of all entries of a group, such as all algorithms."""
    lines = [
        f"# Settings of {TITLES[group]}\n",
        WRITTEN,
        f"Choose one with `{group}=NAME` and set its settings with `{group}.KEY=VALUE`.\n",
    ]
    for name, config in GROUPS[group].items():
        place = PLACES.get(group)
        more = (
            f" [About it](../{place}/{name}.md)." if place and (FOLDER.parent / place / f"{name}.md").exists() else ""
        )
        lines += [f"## {name}\n", plain((config.__doc__ or "").splitlines()[0]) + more + "\n"]
        rows = list(rows_of(config, f"{group}."))
        lines += [*(table(rows) if rows else ["It has no settings."]), ""]
    return "\n".join(lines).rstrip() + "\n"


def pages() -> dict[Path, str]:
    """Return the text of each page."""
    groups = {FOLDER / f"{group}.md": group_page(group) for group in TITLES}
    return {FOLDER / "commands.md": commands_page(), **groups}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
        print(f"wrote {path.name}")
