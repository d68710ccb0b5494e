"""The setting of a run, which is its whole configuration without the keys below, and short names for settings.

Runs of one setting differ only in their seed. A setting is named by what makes it different from the others in the same
report, so that a report on two networks has the rows "mlp" and "moore". A setting with demonstrations always says so:
what it reaches is no result of the reward alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from typing import Any

from polytask.config.compose import groups_of
from polytask.config.schema import TrainConfig
from polytask.envs.suites import SUITE_LEVELS, SUITES
from polytask.settings import default_of

# Where and with which output a run was made. None of it changes what is learned or measured.
WHERE = (
    "seed", "threads", "run_dir", "checkpoint", "format", "save_every", "save_minutes", "video", "tensorboard", "wandb",
)  # fmt: skip
LOGGING = ("wandb_", "video_", "history")  # keys that begin like this only say what a run writes
MEASURED = ("eval_every", "eval_episodes", "grads.conflicts_every")  # what a run measures of itself while it learns
# How long a run was meant to be. Runs of different length are no seeds of one setting, also because of schedules.
BUDGET = ("max_frames", "max_iterations", "max_minutes")
# How a machine computes the same.
MACHINE = ("device", "sim", "sim.name", "sim.contacts_per_world", "sim.constraints_per_world", "algo.compile")
CHOICES = ("tasks", "algo.name", "net.name", "critic_net.name", "grads.name")  # these come first in a name
SHOWN = "with demonstrations"  # the key of settings that start from a policy which was shown some
LONGEST = 40  # characters of a value in a name

Setting = dict[str, Any]  # dotted key -> plain value


def setting_of(config: dict[str, Any], *, is_shown: bool = False) -> Setting:
    """Return the setting of a run. Keys that an old run did not save have their default.

    Args:
        config: The configuration of the run.
        is_shown: Its policy, or the one that it started from, was trained with demonstrations.
    """
    known = {each.name: default_of(each) for each in fields(TrainConfig) if each.name not in groups_of(TrainConfig)}
    kept = {**known, **{name: value for name, value in config.items() if value is not None or name not in known}}
    for name, group in groups_of(TrainConfig).items():
        if isinstance(kept.setdefault(name, None), dict):
            kept[name] = {**_defaults(group, kept[name].get("name")), **kept[name]}
    kept["tasks"] = _tasks(kept.pop("suite"), kept.get("tasks"))
    kept["device"] = str(kept.get("device")).partition(":")[0]  # any GPU
    if kept.get("init_from"):  # each seed may continue its own run
        kept["init_from"] = re.sub(r"seed-?\d+", "seed", str(kept["init_from"]))
    flat = _flat(kept)
    track = {SHOWN: True} if is_shown and not config.get("demos") else {}
    return {**{key: value for key, value in flat.items() if not _is_left_out(key)}, **track}


def portable(setting: Setting) -> Setting:
    """Return what settings on different machines have in common."""
    kept = {key: value for key, value in setting.items() if not is_portable(key)}
    for name, value in _defaults("sim", "warp").items():  # the CPU backend does not have these keys
        if kept.get(f"sim.{name}") == value:
            del kept[f"sim.{name}"]
    return kept


def is_portable(key: str) -> bool:
    """Return whether runs may differ in a key, and still are runs of one published setting."""
    return _is_left_out(key) or key in (*BUDGET, *MACHINE)


def only_says_where(key: str) -> bool:
    """Return whether a key only says where and with which output a run is made."""
    return key in WHERE or key.startswith(LOGGING)


def _is_left_out(key: str) -> bool:
    return key in MEASURED or only_says_where(key)


def _tasks(suite: str, tasks: list[str] | None) -> Any:
    """Return the name of the suite, or the list of the tasks if it is not that of a suite."""
    if tasks is None:
        return suite
    # Some suites of parkour have the same tasks on different terrain.
    return next((name for name, each in SUITES.items() if list(each) == tasks and name not in SUITE_LEVELS), tasks)


def _defaults(group: str, option: str | None) -> dict[str, Any]:
    """Return the default settings of an option such as net=moore; nothing if there is no such option any more."""
    from polytask.config.groups import GROUPS  # slow to import

    config = GROUPS[group].get(str(option))
    return {} if config is None else asdict(config())


def _flat(tree: dict[str, Any], prefix: str = "") -> Setting:
    """Write nested tables as one table with dotted keys."""
    flat: Setting = {}
    for name, value in tree.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def identity(setting: Setting) -> str:
    """Return a text that two settings share only if they are equal."""
    return json.dumps(setting, sort_keys=True, default=str)


def name_settings(settings: Sequence[Setting]) -> list[str]:
    """Return a short and different name for each of several different settings."""
    is_alone = len(settings) == 1
    chosen = [key for key in CHOICES if is_alone or len({_text(one.get(key)) for one in settings}) > 1]
    tracks = [f"with{'' if one.get(SHOWN) or one.get('demos') else 'out'} demonstrations" for one in settings]
    is_said = "with demonstrations" in tracks
    parts = [_choices(one, chosen) + ([track] if is_said else []) for one, track in zip(settings, tracks, strict=True)]
    keys, equal = _short_keys(settings), _equal(parts, range(len(parts)))
    while equal:
        members = equal.pop()
        best = _most_telling([settings[index] for index in members])
        if best is None:
            continue
        for index in members:
            parts[index].append(f"{keys.get(best, best)}={_value(settings[index].get(best))}")
        equal += _equal(parts, members)
    return _numbered([" ".join(each) or "setting" for each in parts])


def differences(settings: Sequence[Setting]) -> dict[str, list[Any]]:
    """Return the keys whose values differ between settings, with the value of each setting (None: it has no such key).

    The keys inside a group are listed only if settings that chose the same option differ in them.
    """
    found = {}
    for key in dict.fromkeys(key for one in settings for key in one):
        group = f"{key.partition('.')[0]}.name"
        if key != group and any(group in one for one in settings):
            options: dict[str, set[str]] = {}
            for one in settings:
                if key in one:
                    options.setdefault(_text(one.get(group)), set()).add(_text(one[key]))
            is_different = any(len(values) > 1 for values in options.values())
        else:
            is_different = len({_text(one.get(key)) for one in settings}) > 1
        if is_different:
            found[key] = [one.get(key) for one in settings]
    return found


def show_value(value: Any) -> str:
    """Write the value of a setting for people."""
    if value is None:
        return "default"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        if len(value) > 1 and len({_text(each) for each in value}) == 1:
            return f"{len(value)}x{show_value(value[0])}"
        return ("-" if all(isinstance(each, int) for each in value) else "+").join(map(show_value, value)) or "none"
    return str(value)


def _value(value: Any) -> str:
    text = show_value(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _choices(setting: Setting, keys: Sequence[str]) -> list[str]:
    """Write what a setting chose: the tasks, the algorithm, networks and the gradient method."""
    found = {key: _value(setting[key]) for key in keys if setting.get(key) is not None}
    if "tasks" in found and len(show_value(setting["tasks"])) > LONGEST:
        found["tasks"] = f"{len(setting['tasks'])} tasks"
    if "critic_net.name" in found:
        found["critic_net.name"] = f"critic {found['critic_net.name']}"
        if setting.get("net.name") == setting["critic_net.name"] and "net.name" in found:
            del found["critic_net.name"]
    if found.get("grads.name") == "mean" and len(found) > 1:  # no method: said only where nothing else is
        del found["grads.name"]
    return list(found.values())


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _short_keys(settings: Sequence[Setting]) -> dict[str, str]:
    """Return the last part of each key that differs, where all such keys that end in it have the same values."""
    leaves: dict[str, dict[str, str]] = {}
    for key, values in differences(settings).items():
        leaves.setdefault(key.rpartition(".")[2], {})[key] = _text(values)
    return {key: leaf for leaf, keys in leaves.items() for key in keys if len(set(keys.values())) == 1}


def _equal(parts: Sequence[Sequence[str]], members: Iterable[int]) -> list[list[int]]:
    """Return the groups of settings, among some, that have the same name so far."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for index in members:
        groups.setdefault(tuple(parts[index]), []).append(index)
    return [group for group in groups.values() if len(group) > 1]


def _most_telling(settings: Sequence[Setting]) -> str | None:
    """Return the key that has the most different values in some settings; None if all values look the same."""
    counts = {key: len({_value(each) for each in values}) for key, values in differences(settings).items()}
    best = max(counts, key=counts.__getitem__, default=None)
    return best if best is not None and counts[best] > 1 else None


def _numbered(names: list[str]) -> list[str]:
    """Append a number to names that are still equal."""
    return [f"{name} ({names[:index].count(name) + 1})" if names.count(name) > 1 else name
            for index, name in enumerate(names)]  # fmt: skip
