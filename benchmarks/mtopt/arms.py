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
evaluator's own starts, which constant commands and random actions play as well.

The folders below `--work` hold everything that is not finished, and `--out` the finished rows. The same command again
continues until nothing is left to do (`complete`). `detectors` names, for each seed, the tasks that the detector was
taught, those that the gate refused and why, and those it judges. Nothing learns the others, so means are over tasks
that are judged in all seeds that are compared. An arm without any judged task is named in `without_reward`.
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
from runs import (
    MORE_LABELS,
    WEIGHTS,
    Deadline,
    TimeIsUpError,
    copy_run,
    evaluation,
    fill_in,
    gate_of,
    of_common_seeds,
    require_base,
    run_config,
    study_flags,
    take_device,
    updates_of,
)
from simple import above_blind

from polytask.mtopt.config.run import RunConfig
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
# Each is a preset. That of tiny alone has too few labels and updates for a detector that the gate lets pass.
TINY = ("collector.episodes=2560", "labels.per_task=500", "labels.passes=2", "detector.updates=3000")
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"updates": 400, "episodes": 128, "words": TINY},
    "gpu": {"updates": 2500, "episodes": 512, "words": ()},
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
        return run_config(self.arguments, self.root / name, self.seed, self.arguments.size, own)

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
        head = {"seed": self.seed, "arm": name, "updates": updates_of(config.root), "judged": self.judged(name)}
        return {**head, "tasks": tasks}

    def gate(self) -> dict[str, Any]:
        """Return which tasks of the base the detector was taught, refuses and judges."""
        return {"seed": self.seed, **gate_of(self.base())}

    def judged(self, name: str) -> list[str]:
        """Return the tasks of an arm that the detector judges; without one, the arm has no reward."""
        (gate,) = (row for row in self.report.results["detectors"] if row["seed"] == self.seed)
        learned = self.config("base", ARMS[name].tasks).learned
        return [task for task in learned if task in gate["judged"]]

    def simple(self) -> dict[str, Any]:
        """Play the evaluator's starts by simple policies and by scripts; weights play no part."""
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


def judged_by(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return by task, in the order of the tasks, the rows whose detector judges it: the others never learned it."""
    tasks = dict.fromkeys(task for row in rows for task in row["tasks"])
    found = {task: [row for row in rows if task in row["judged"]] for task in tasks}
    return {task: mine for task, mine in found.items() if mine}


def judged_in_all(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the tasks that the detectors of all rows judge."""
    return [task for task, mine in judged_by(rows).items() if len(mine) == len(rows)]


def table(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Pool the seeds of an arm: each task over the seeds that judge it, the mean over the tasks that all of them do."""
    tasks = judged_in_all(rows)
    mean = pooled(rates_of(rows, tasks)) if tasks else None
    return {"mean": mean, "judged": tasks} | {
        task: pooled(rates_of(mine, [task])) for task, mine in judged_by(rows).items()
    }


def compared(first: Sequence[dict[str, Any]], other: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return how far `twelve` is above another arm, task by task and in the mean, with 95 % intervals.

    Only seeds that both have count, and only tasks that both learned. None if there are none.
    """
    first, other = of_common_seeds(first, other)
    mine, tasks = judged_by(first), {}
    for task, rows in judged_by(other).items():
        pair = of_common_seeds(mine.get(task, []), rows)
        if all(pair):
            tasks[task] = contrast(*(rates_of(part, [task]) for part in pair))
    judged = [task for task in judged_in_all(other) if task in judged_in_all(first)]
    if not tasks:
        return None
    mean = contrast(rates_of(first, judged), rates_of(other, judged)) if judged else None
    return {"seeds": [row["seed"] for row in other], "judged": judged, "mean": mean, "tasks": tasks}


def above_simple(rows: Sequence[dict[str, Any]], simple: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return how far an arm is above the best policy that sees nothing, by judged task, on the seeds that both have."""
    found = {}
    for task, judged in judged_by(rows).items():
        mine, others = of_common_seeds(judged, simple)
        if mine:
            found[task] = above_blind(rates_of(mine, [task]), [row["tasks"][task] for row in others])
    return found


def summarize(report: Report) -> None:
    """Pool the seeds of each arm, and compare every arm with `twelve` and with policies that see nothing."""
    arms: dict[str, list[dict[str, Any]]] = {}
    for row in report.results.get("rows", []):
        arms.setdefault(row["arm"], []).append(row)
    report.put("table", {name: table(rows) for name, rows in arms.items()}, quiet=True)
    simple = report.results.get("simple", [])
    report.put("above_blind", {name: above_simple(rows, simple) for name, rows in arms.items()}, quiet=True)
    if "twelve" in arms:
        others = {name: compared(arms["twelve"], rows) for name, rows in arms.items() if name != "twelve"}
        report.put("twelve_above", {name: found for name, found in others.items() if found})


def finish(study: Study, arms: Sequence[str], report: Report) -> None:
    """Do what is left of a seed: the base, the simple policies, then every arm that has a reward."""
    seed = study.seed

    def of_seed(key: str) -> list[dict[str, Any]]:
        return [row for row in report.results.get(key, []) if row["seed"] == seed]

    done = {row["arm"] for key in ("rows", "without_reward") for row in of_seed(key)}
    left = [one for one in arms if one not in done]
    if not of_seed("detectors"):
        report.append("detectors", study.gate())
    elif left:
        require_base(study.config("base"), of_seed("detectors")[0], seed)
    if not of_seed("simple"):
        report.append("simple", study.simple())
    for arm in left:
        if study.judged(arm):
            report.append("rows", study.arm(arm))
            summarize(report)
        else:
            report.say(f"seed {seed}, {arm}: the detector judges none of its tasks; {MORE_LABELS}")
            report.append("without_reward", {"seed": seed, "arm": arm})


def body(arguments: argparse.Namespace, report: Report) -> None:
    """Do what is left, seed by seed."""
    report.resume(("detectors", "simple", "rows", "without_reward"), FREE)
    torch.set_num_threads(arguments.threads)
    report.put("without_reward", report.results.get("without_reward", []), quiet=True)
    report.put("complete", False, quiet=True)
    try:
        for seed in arguments.seeds:
            finish(Study(arguments, report, seed), arguments.arms, report)
        report.put("complete", True)  # nothing is left to do: an arm without a reward gets none by another call
    except TimeIsUpError:
        report.say("the time is over; the same command continues")


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Read the flags and run."""
    flags = study_flags(__doc__, "runs/arms", SIZES, ARMS)
    flags.add_argument("--tasks", nargs="+", default=[], help="of the base (default: the twelve)")
    arguments = flags.parse_args(argv)
    fill_in(arguments, SIZES[arguments.size])
    take_device(flags, arguments, lambda: run_config(arguments, Path(arguments.work), 0, arguments.size, []))
    return run("arms", arguments, body)


if __name__ == "__main__":
    main()
