"""Folders of runs for the tests of reports: real settings, invented numbers."""

import json
from functools import cache

import yaml

from polytask.config.compose import compose, to_plain
from polytask.config.schema import TrainConfig


@cache
def settings(*words):
    """Return the whole configuration that some words amount to, as JSON, which cannot be changed by accident."""
    tasks = [] if any(word.startswith("suite=") for word in words) else ["tasks=[reach,push]"]
    return json.dumps(to_plain(compose(TrainConfig, [*tasks, *words])))


def row(iteration, rates, **more):
    """Return a row of metrics; `rates` has the training success of each task."""
    known = [rate for rate in rates.values() if rate is not None]
    mean = sum(known) / len(known) if known else None
    return {
        "iteration": iteration,
        "frames": 1000 * iteration,
        "seconds": 60.0 * iteration,
        "success": mean,
        **{f"success/{task}": rate for task, rate in rates.items()},
        **{f"return/{task}": None if rate is None else 10.0 * rate for task, rate in rates.items()},
        "return": None if mean is None else 10.0 * mean,
        **more,
    }


def evaluation(rates, episodes=20):
    """Return the part of a summary that holds an evaluation."""
    tasks = {task: {"success": rate} for task, rate in rates.items()}
    return {"tasks": tasks, "mean_success": sum(rates.values()) / len(rates), "episodes": episodes}


def write_run(folder, *words, seed=0, rows=None, **summary):
    """Write the folder of a run and return it; with complete=None it has no summary, because it has not ended."""
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump({**json.loads(settings(*words)), "seed": seed}))
    rows = [row(1, {"reach": 0.2, "push": 0.0}), row(2, {"reach": 0.4, "push": 0.2})] if rows is None else rows
    (folder / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    summary = {"complete": True, **summary}
    if summary["complete"] is not None:
        (folder / "summary.json").write_text(json.dumps(summary))
    return folder
