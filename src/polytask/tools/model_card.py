"""The card of a policy file: where the policy comes from, and how well it does, measured with the file itself."""

from __future__ import annotations

import json
import shlex
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from polytask.config.compose import compose, groups_of
from polytask.config.schema import EvalConfig, ExportPolicyConfig, TrainConfig
from polytask.config.values import quote
from polytask.files import finite, write_text
from polytask.policies.files import open_policy
from polytask.runs.evaluate import Evaluator
from polytask.runs.provenance import provenance

LICENCE = "MIT"
OWN = ("run_dir", "checkpoint", "init_from", "video", "threads")  # settings that do not change what is learned


def write_card(path: Path, saved: dict[str, Any], config: ExportPolicyConfig) -> dict[str, Any]:
    """Evaluate a policy file in the worlds of its run, and write the card beside it.

    Args:
        path: The policy file.
        saved: The settings of the run.
        config: The settings of the export.

    Returns:
        The card.
    """
    words = [f"episodes={config.episodes}", f"device={config.device}"]
    shown = "none" if saved.get("privileged") == "critic" else saved.get("privileged")  # what the file's policy sees
    worlds: EvalConfig = compose(EvalConfig, words, saved={**saved, "goals": None, "privileged": shown})
    evaluator = Evaluator(worlds, config.episodes)
    policy = open_policy(path, evaluator.env.device)
    summary = evaluator.run_and_show(policy.for_tasks(evaluator.env.spec.tasks))
    evaluator.close()
    info = policy.info
    card = {
        "name": path.stem,
        "licence": LICENCE,
        "command": command_of(compose(TrainConfig, [], saved=saved)),
        "run": info.run,
        "algo": info.algo,
        "net": info.net,
        "robot": info.robot,
        "bytes": path.stat().st_size,
        "episodes": config.episodes,
        "seed": worlds.seed,
        "reward": worlds.reward,
        "episode_length": evaluator.env.spec.episode_length,
        "evaluated_with": provenance(evaluator.env.device),
        "mean_success": summary["mean_success"],
        "mean_interval": summary["mean_interval"],
        "tasks": {
            task: {name: one[name] for name in ("success", "interval", "return")}
            for task, one in summary["tasks"].items()
        },
    }
    write_text(path.with_suffix(".json"), json.dumps(finite(card), indent=2) + "\n")
    return card


def command_of(config: TrainConfig) -> str:
    """Return a command line that trains with these settings: those that differ from the defaults."""
    chosen = [
        f"{group}={getattr(config, group).name}"
        for group in groups_of(TrainConfig)
        if getattr(config, group) is not None
    ]
    default = compose(TrainConfig, chosen)
    plain = compose(TrainConfig, [])
    words = [word for word in chosen if word != f"{word.partition('=')[0]}={_name(plain, word.partition('=')[0])}"]
    return " ".join(["polytask train", *map(shlex.quote, [*words, *_changes(config, default)])])


def _name(config: TrainConfig, group: str) -> str | None:
    chosen = getattr(config, group)
    return None if chosen is None else chosen.name


def _changes(config: Any, default: Any, prefix: str = "") -> list[str]:
    """Return the words for the settings that differ from another config of the same class."""
    words: list[str] = []
    for each in fields(config):
        value, other = getattr(config, each.name), getattr(default, each.name)
        if is_dataclass(value):
            words += _changes(value, other, f"{prefix}{each.name}.")
        elif value != other and each.name not in OWN:
            words.append(f"{prefix}{each.name}={_text(value)}")
    return words


def _text(value: Any) -> str:
    """Write a value as a word of a command line."""
    if isinstance(value, list | tuple):
        return f"[{','.join(_text(each) for each in value)}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value) if not isinstance(value, str) or not set(value) & set(",[]'\" ") else quote(value)
