"""What may change when a run continues.

Its worlds, seed, networks and algorithm may not, because it would be another experiment. How the algorithm learns may
change; this is printed and kept, so that reports tell it. Limits, measurements and files are free.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from polytask.config.compose import to_plain
from polytask.config.schema import TrainConfig
from polytask.envs.options import EnvOptions
from polytask.errors import UserError, shown
from polytask.files import Fields

CHANGE_FIELDS: Fields = {"frames": int, "setting": str, "before": str, "after": str}

# Options of the worlds that only say how a machine computes them; all others, and networks, make the experiment.
MACHINE = ("device", "sim", "threads")
WORLDS = tuple(each.name for each in fields(EnvOptions) if each.name not in MACHINE)
NETWORKS, NAMES = ("net", "critic_net"), ("algo.name", "grads.name")
LEARNING = ("algo", "grads")  # how the run learns; all that is left are limits, and what it measures and writes
NO_CHANGE = ("algo.compile", "grads.conflicts_every")  # except for these
RIVALS = (("tasks", "suite"), ("envs_per_task", "num_envs"))  # keys that say the same in different ways


def require_same(source: str, saved: TrainConfig, now: TrainConfig) -> None:
    """Check that a run continues as the experiment that it began as.

    Args:
        source: The run, as the user named it.
        saved: Its settings.
        now: The settings with which it is to continue.

    Raises:
        UserError: If not.
    """
    before, after = _plain(saved), _plain(now)
    found = [key for key in {**before, **after} if _is_fixed(key) and before.get(key) != after.get(key)]
    if (saved.task_names, saved.chosen_levels) == (now.task_names, now.chosen_levels):
        found = [key for key in found if key not in ("tasks", "suite")]
    if not found:
        return
    key = min(found, key=lambda key: not key.endswith(".name"))  # settings differ because the network does
    pair = next((pair for pair in RIVALS if key in pair), (key,))
    old = next((name for name in pair if before.get(name) is not None), key)
    new = next((name for name in pair if after.get(name) is not None), key)
    value = before.get(old)
    began = f"the default {_word(old)}" if value is None else f"{_word(old)}={text_of(value)}"
    raise UserError(
        f"{source} was trained with {began}; leave {_word(new)} out, or start a new run with init_from={source}"
    )


def changes(saved: TrainConfig, now: TrainConfig, frames: int) -> list[dict[str, Any]]:
    """Return what a run that continues after a number of frames changes of how it learns, see `CHANGE_FIELDS`."""
    before, after = _plain(saved), _plain(now)
    return [
        {"frames": frames, "setting": key, "before": text_of(before.get(key)), "after": text_of(after.get(key))}
        for key in {**before, **after}
        if before.get(key) != after.get(key) and key.partition(".")[0] in LEARNING and key not in NO_CHANGE
    ]


def describe(found: list[dict[str, Any]]) -> str:
    """Write changes in one line."""
    return ", ".join(f"{each['setting']} {each['before']} -> {each['after']}" for each in found)


def _is_fixed(key: str) -> bool:
    return key in NAMES or key.partition(".")[0] in (*WORLDS, *NETWORKS)


def _plain(config: TrainConfig) -> dict[str, Any]:
    """Return settings with dotted keys, as a file has them: lists for tuples, text for paths."""
    plain: dict[str, Any] = json.loads(json.dumps(to_plain(config), default=str))
    return _flat(plain)


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat = dict[str, Any]()
    for name, value in tree.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def _word(key: str) -> str:
    """Return a key as people type it: the name of a network is chosen with net=NAME."""
    return key.removesuffix(".name")


def text_of(value: Any) -> str:
    """Write a value as people type it."""
    if isinstance(value, list):
        return shown(f"[{','.join(map(text_of, value))}]")
    return shown("null" if value is None else str(value).lower() if isinstance(value, bool) else value)
