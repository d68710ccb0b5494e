"""Compare ways to learn from the same data: two tasks or twelve, one task, separate heads, and 3 x 2 ways of sharing.

For each seed, one run collects by scripts, labels, trains a detector and grades everything (`base`); it learns nothing.
Each arm is a new run on the base's episodes, labels, detectors and verdicts, and makes the same number of updates:

    twelve                  all tasks of the base, one head, episodes shared within a skill, re-balanced
    two                     lift-any and place-any alone: does a policy of many tasks generalise better on these two?
    sausage                 lift-sausage alone, with the episodes and verdicts that `twelve` has for it
    multi-head              as twelve, with separate dense layers for each task (Fig. 10 of the paper)
    orig-uniform, orig-balanced, all-uniform, all-balanced, skill-uniform
                            as twelve, with another sharing or without re-balancing; skill-balanced is `twelve`

Unlike `sharing.py`, episodes have several actions, and targets are backed up. All arms are evaluated from the
evaluator's own starts, which constant commands, random actions and the scripts play as well.

The folders below `--work` hold everything that is not finished, and `--out` the finished rows. The same command again
continues. An arm that has no reward, because the detector was not taught its tasks or is too imprecise for them, is
named in `without_reward`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from experiment import Report, contrast, pooled, run
from runs import WEIGHTS, Deadline, TimeIsUpError, copy_run, evaluation, run_config, study_flags, updates_of

from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.detector import Judge
from polytask.mtopt.runtime.checks import check_devices
from polytask.mtopt.runtime.folder import FILE_NAME, METRICS
from polytask.mtopt.runtime.local import LocalRuntime

UNIFORM = ("replay.balance_tasks=false", "replay.success_ratio=null")
BALANCED = ("replay.balance_tasks=true", "replay.success_ratio=0.5")


@dataclass(frozen=True)
class Arm:
    """One way to learn from the base's data."""

    tasks: tuple[str, ...] = ()  # none: those of the base
    words: tuple[str, ...] = ()


ARMS = {
    "twelve": Arm(words=("sharing.strategy=skill", *BALANCED)),
    "two": Arm(("lift-any", "place-any")),
    "sausage": Arm(("lift-sausage",)),
    "multi-head": Arm(words=("learner.network.heads=multi",)),
    "orig-uniform": Arm(words=("sharing.strategy=orig", *UNIFORM)),
    "orig-balanced": Arm(words=("sharing.strategy=orig", *BALANCED)),
    "all-uniform": Arm(words=("sharing.strategy=all", *UNIFORM)),
    "all-balanced": Arm(words=("sharing.strategy=all", *BALANCED)),
    "skill-uniform": Arm(words=("sharing.strategy=skill", *UNIFORM)),
}
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"preset": "tiny", "updates": 400, "episodes": 128},
    "gpu": {"preset": "gpu", "updates": 2500, "episodes": 512},
}
FREE = ("seconds", "seeds", "arms", "work", "threads")  # flags that may differ from one command to the next
KEPT = ("success", "low", "high", "episodes", "verdict", "wrong", "length")


class Prepared(Sequence[int]):
    """Looks like a list of signals: asks a runtime to stop when all data are graded, or when the time is over."""

    def __init__(self, runtime: LocalRuntime, deadline: Deadline) -> None:
        """Watch a runtime and the clock."""
        self._runtime, self._deadline = runtime, deadline

    def __len__(self) -> int:
        """Count one signal when the next job would need weights."""
        return int(self._runtime.controller.phase in ("train", "evaluate") or bool(self._deadline))

    def __getitem__(self, index: Any) -> Any:
        """Return the signal: that of a polite stop."""
        return [15][index]


class Study:
    """The runs of one seed."""

    def __init__(self, arguments: argparse.Namespace, report: Report, seed: int) -> None:
        """Read the settings; nothing is written yet."""
        self.arguments, self.report, self.stops, self.seed = arguments, report, Deadline(report), seed
        self.root = Path(arguments.work) / f"{arguments.size}-seed{seed}"

    def config(self, name: str, tasks: Sequence[str] = (), words: Sequence[str] = ()) -> RunConfig:
        """Return the settings of a run below the working folder; without tasks, it has those of the base."""
        learned = tuple(tasks) or tuple(self.arguments.tasks)
        own = [*words, f"tasks=[{','.join(learned)}]"]
        return run_config(self.arguments, self.root / name, self.seed, SIZES[self.arguments.size]["preset"], own)

    def base(self) -> RunConfig:
        """Collect, label, train the detector and grade, or do what is left of it."""
        config = self.config("base", words=["trainer.updates=0"])
        with closing(LocalRuntime(config, self.report.say)) as runtime:
            runtime.run(Prepared(runtime, self.stops))
        self.stops.check()
        return config

    def arm(self, name: str) -> dict[str, Any]:
        """Train and evaluate one arm; return its row."""
        base, arm = self.base(), ARMS[name]
        config = self.config(name, arm.tasks, arm.words)
        if not config.root.exists():
            copy_run(base.root, config.root, without=(FILE_NAME, METRICS, *WEIGHTS))
        left = self.arguments.updates - updates_of(config.root)
        if left > 0:
            with closing(LocalRuntime(config, self.report.say, is_plan=False)) as runtime:
                runtime.train(left, self.stops)
        self.stops.check()
        found = evaluation(config, config.learned)
        tasks = {task: {key: row[key] for key in KEPT} for task, row in found.items()}
        return {"seed": self.seed, "arm": name, "updates": updates_of(config.root), "tasks": tasks}

    def is_rewarded(self, name: str) -> bool:
        """Return whether the detector judges a task of an arm."""
        config = self.config("base", ARMS[name].tasks)
        judge = Judge(self.base().detectors, "cpu")
        return bool(judge.judged(config.learned))

    def simple(self) -> dict[str, Any]:
        """Play the evaluator's starts of all tasks by simple policies and scripts; weights play no part."""
        config = self.base()
        config.evaluator.simple = True
        found = evaluation(config, config.learned, is_scripted=True)
        tasks = {
            task: {"script": row["success"], **(row["simple"] or {}), "episodes": row["episodes"]}
            for task, row in found.items()
        }
        return {"seed": self.seed, "tasks": tasks}


def rates_of(rows: Sequence[dict[str, Any]], tasks: Sequence[str]) -> list[dict[str, float | int]]:
    """Return each seed's mean rate over some tasks, with the count of their episodes."""
    found: list[dict[str, float | int]] = []
    for row in rows:
        each = [row["tasks"][task] for task in tasks]
        mean = sum(one["success"] for one in each) / len(each)
        found.append({"mean": mean, "count": sum(one["episodes"] for one in each)})
    return found


def compared(first: Sequence[dict[str, Any]], other: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return how far `twelve` is above another arm, task by task and in the mean, with 95 % intervals."""
    tasks = [task for task in other[0]["tasks"] if task in first[0]["tasks"]]
    gaps = {task: contrast(rates_of(first, [task]), rates_of(other, [task])) for task in tasks}
    return {"mean": contrast(rates_of(first, tasks), rates_of(other, tasks)), "tasks": gaps}


def above_blind(rows: Sequence[dict[str, Any]], simple: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return how far an arm is above the best policy that sees nothing, by task."""
    found = {}
    for task in rows[0]["tasks"]:
        blind = [name for name in simple[0]["tasks"][task] if name not in ("script", "episodes")]
        means = {name: sum(row["tasks"][task][name] for row in simple) / len(simple) for name in blind}
        best = max(blind, key=lambda name: means[name])
        same: list[dict[str, float | int]] = [
            {"mean": row["tasks"][task][best], "count": row["tasks"][task]["episodes"]} for row in simple
        ]
        found[task] = {"policy": best, **contrast(rates_of(rows, [task]), same)}
    return found


def summarize(report: Report) -> None:
    """Pool the seeds of each arm, and compare every arm with `twelve` and with policies that see nothing."""
    arms: dict[str, list[dict[str, Any]]] = {}
    for row in report.results.get("rows", []):
        arms.setdefault(row["arm"], []).append(row)
    table = {
        name: {"mean": pooled(rates_of(rows, list(rows[0]["tasks"])))}
        | {task: pooled(rates_of(rows, [task])) for task in rows[0]["tasks"]}
        for name, rows in arms.items()
    }
    report.put("table", table, quiet=True)
    simple = report.results.get("simple", [])
    report.put("above_blind", {name: above_blind(rows, simple) for name, rows in arms.items()}, quiet=True)
    if "twelve" in arms:
        others = {name: compared(arms["twelve"], rows) for name, rows in arms.items() if name != "twelve"}
        report.put("twelve_above", others)


def body(arguments: argparse.Namespace, report: Report) -> None:
    """Do what is left, seed by seed: the simple policies, then every arm."""
    report.resume(("simple", "rows"), FREE)
    torch.set_num_threads(arguments.threads)
    check_devices({"device": Study(arguments, report, 0).config("base").device})
    report.put("complete", False, quiet=True)
    missing: list[dict[str, Any]] = []
    try:
        for seed in arguments.seeds:
            study = Study(arguments, report, seed)
            if seed not in {row["seed"] for row in report.results.get("simple", [])}:
                report.append("simple", study.simple())
            done = {row["arm"] for row in report.results.get("rows", []) if row["seed"] == seed}
            for arm in (one for one in arguments.arms if one not in done):
                if study.is_rewarded(arm):
                    report.append("rows", study.arm(arm))
                    summarize(report)
                else:
                    report.say(f"seed {seed}, {arm}: the detector judges none of its tasks; use more labels")
                    missing.append({"seed": seed, "arm": arm})
        report.put("without_reward", missing)
        report.put("complete", not missing)
    except TimeIsUpError:
        report.say("the time is over; the same command continues")


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Read the flags and run."""
    flags = study_flags(__doc__, "runs/arms", SIZES, ARMS)
    flags.add_argument("--tasks", nargs="+", default=[], help="of the base (default: the twelve)")
    arguments = flags.parse_args(argv)
    for name in ("updates", "episodes"):
        if getattr(arguments, name) is None:
            setattr(arguments, name, SIZES[arguments.size][name])
    return run("arms", arguments, body)


if __name__ == "__main__":
    main()
