"""The card of a policy file: where the policy comes from, and how well it does, measured with the file itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from polytask.config.compose import compose, to_plain
from polytask.config.schema import EvalConfig, ExportPolicyConfig, TrainConfig
from polytask.files import finite, write_text
from polytask.policies.files import open_policy
from polytask.runs.commands import command_of
from polytask.runs.evaluate import Evaluator
from polytask.runs.provenance import provenance

LICENCE = "MIT"
NO_MATTER = ("video", "threads")  # settings that do not change what is learned


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
        "command": training_command(saved),
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


def training_command(saved: dict[str, Any]) -> str | None:
    """Return a command line that trains with the settings of a run."""
    config = to_plain(compose(TrainConfig, [], saved=saved))
    if saved.get("init_from") is not None:  # a run that continues does not take it over
        config["init_from"] = Path(saved["init_from"]).name  # its folder is of no use to a reader
    if saved.get("demos") is not None:
        config["demos"] = Path(saved["demos"]).name
    return command_of({name: value for name, value in config.items() if name not in NO_MATTER})
