"""The settings of a sweep: every combination of the values that its words give.

A comma outside brackets and quotes separates values: `grads=mean,pcgrad net=mlp,moore` makes four settings, and
`tasks=[reach,push],[reach]` makes two.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import product
from typing import Any

from polytask.config.compose import compose, current_name, names_of, to_plain
from polytask.config.launching import LaunchConfig, SweepConfig
from polytask.config.presets import PRESET, presets
from polytask.config.schema import TrainConfig
from polytask.envs.tasks import TASKS
from polytask.errors import UserError, require_known, shown, suggest
from polytask.runs.report import labels
from polytask.runs.report.labels import only_says_where

# Keys that the sweep itself sets for every run, with the key of the sweep to use instead.
RESERVED = {
    "seed": "use seeds=N and first_seed=N",
    "run_dir": "use output=FOLDER",
    "checkpoint": "interrupted runs continue by themselves",
    "format": "use it without other words",
}
COLLECTORS = ("grid", "changes")  # keys that nobody writes: the words without a key of the command are in them
LONGEST_VALUE, LONGEST_NAME = 24, 64  # characters of a value and of all values in the name of a folder


@dataclass(frozen=True)
class Setting:
    """One setting of a sweep.

    Attributes:
        words: The words after `polytask train`, without seed and folder.
        label: The values that differ between the settings of the grid, such as "pcgrad mlp".
        config: What the words amount to.
    """

    words: tuple[str, ...]
    label: str
    config: TrainConfig

    @property
    def slug(self) -> str:
        """The label as part of a folder's name: short, and without any character that a shell reads."""
        parts = [re.sub(r"[^A-Za-z0-9._]+", "-", part).strip("-.")[:LONGEST_VALUE] for part in self.label.split(" ")]
        return "-".join(part for part in parts if part)[:LONGEST_NAME].strip("-.") or "run"


def identity(config: TrainConfig) -> dict[str, Any]:
    """Return all settings that decide what a run learns and measures, except the seed, as JSON has them (no tuples)."""
    plain = {name: value for name, value in to_plain(config).items() if not only_says_where(name)}
    read: dict[str, Any] = json.loads(json.dumps(plain))
    return read


def settings_of(words: Sequence[str]) -> list[Setting]:
    """Return the settings of a grid, in the order of the words: the last word's values change fastest.

    Raises:
        UserError: If a word cannot be read or is not valid with the others, or two settings are equal.
    """
    axes = _axes(words)
    varied = [name for name, values in axes.items() if len(values) > 1]
    found: list[Setting] = []
    for values in product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        config = _compose(chosen, varied)
        label = " ".join(_short(name, chosen[name]) for name in varied)
        if not varied:
            label = _short(PRESET, chosen[PRESET]) if PRESET in chosen else f"{config.algo.name} {config.net.name}"
        found.append(Setting(tuple(f"{name}={value}" for name, value in chosen.items()), label, config))
    check_different(found)
    return found


def check_different(settings: Sequence[Setting]) -> None:
    """Check that no two settings are equal, or one in a report: a run would count twice.

    Raises:
        UserError: If two are.
    """
    seen: dict[str, Setting] = {}
    for one in settings:
        other = seen.setdefault(labels.identity(labels.setting_of(to_plain(one.config))), one)
        if other is not one:
            what = "equal" if identity(one.config) == identity(other.config) else "one and the same in a report"
            raise UserError(f"two settings are {what}: '{' '.join(other.words)}' and '{' '.join(one.words)}'")


def split_values(word: str) -> tuple[str, list[str]]:
    """Split `key=a,b` into the key and its values; commas inside brackets or quotes do not separate.

    Raises:
        UserError: If the word has no key or an empty value, or a bracket or quote is not closed.
    """
    name, equals, text = word.partition("=")
    if not equals or not name:
        raise UserError(f"'{shown(word)}' is not of the form key=value or key=value,value")
    values, start, depth, quote = list[str](), 0, 0, ""
    for at, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote and text[at - 1] != "\\" else quote
        elif sign in "'\"":
            quote = sign
        elif sign in "[]":
            depth += 1 if sign == "[" else -1
        elif sign == "," and depth == 0:
            values.append(text[start:at].strip())
            start = at + 1
    values.append(text[start:].strip())
    if quote or depth:
        raise UserError(f"'{shown(word)}': a bracket or quote is not closed")
    if len(values) > 1 and "" in values:
        raise UserError(f"'{shown(word)}' has an empty value")
    return name, values


def select(pattern: str) -> list[str]:
    """Return the presets of this name, or those that match a pattern such as `mtbench/mt10_rand/*`.

    Raises:
        UserError: If there is none.
    """
    known = list(presets())
    found = [name for name in known if name == pattern or fnmatchcase(name, pattern)]
    if not found:
        raise UserError(f"unknown preset '{shown(pattern)}'; {suggest(pattern, known, hints=3)}")
    return found


def _axes(words: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of every key. If a key occurs twice, the last word is used, as in `polytask train`."""
    axes: dict[str, list[str]] = {}
    for word in words:
        name, values = split_values(word)
        name = current_name(TrainConfig, name)
        check_not_own(name, SweepConfig)
        if name in RESERVED:
            raise UserError(f"'{name}' cannot be given: the sweep sets it for each run; {RESERVED[name]}")
        if name == PRESET:
            patterns = values[0][1:-1].split(",") if len(values) == 1 and values[0].startswith("[") else values
            values = list(dict.fromkeys(each for pattern in patterns for each in select(pattern.strip())))
        axes[name] = values
    return axes


def check_not_own(name: str, schema: type[LaunchConfig]) -> None:
    """Check that an unknown key is not a misspelt key of the command; `compose` explains the other mistakes.

    Raises:
        UserError: If it is.
    """
    near = own_key_near(name, schema)
    if near is not None:
        raise UserError(f"unknown key '{shown(name)}'; did you mean '{near}'?")


def own_key_near(name: str, schema: type[LaunchConfig]) -> str | None:
    """Return the key of a command that a word is a misspelling of, if any; a key of `polytask train` is none."""
    if name.partition(".")[0] in names_of(TrainConfig):
        return None
    own = [each.name for each in fields(schema) if each.name not in COLLECTORS]
    return next(iter(get_close_matches(name, own, n=1, cutoff=0.7)), None)


def _compose(chosen: dict[str, str], varied: Sequence[str]) -> TrainConfig:
    """Compose one setting, and check what only a start would find otherwise."""
    config: TrainConfig = compose(TrainConfig, [f"{name}={value}" for name, value in chosen.items()])
    for name in varied:
        value: Any = config
        for part in name.split("."):
            value = getattr(value, part, None)
        if isinstance(value, list) and not chosen[name].startswith("["):
            raise UserError(f"{name} is a list: write {name}=[a,b] for one setting, or {name}=[a],[b] for two")
    for task in config.task_names:
        require_known("task", task, TASKS)
    return config


def _short(name: str, value: str) -> str:
    """Return a value for a label: the last part of a preset's name, and only the number of many list entries."""
    if name == PRESET:
        return value.rpartition("/")[2]
    if value.startswith("["):
        entries = [entry.strip().strip("'\"") for entry in value[1:-1].split(",") if entry.strip()]
        value = "+".join(entries) if len(entries) <= 3 else f"{len(entries)}{name.rpartition('.')[2]}"
    key = name.rpartition(".")[2]
    is_bare = re.fullmatch(r"[\d.eE+_-]+|true|false|null", value) is not None
    return f"{key}{value}" if is_bare else value.strip("'\"").replace(" ", "_")
