"""Compare a new task learned by fine-tuning with the same task learned from scratch, by the package's own runs.

For each seed, a run learns tasks without cover-object (`base`). Then scripts collect a small number of cover-object
episodes, the stand-in labels them through the page, and a detector of all tasks judges everything. From there on, each
arm is a copy of that run which makes the same number of updates, with the same cover-object episodes and verdicts:

    scratch     new weights, cover-object's episodes alone
    continued   the base's weights, cover-object's episodes alone: only the first weights differ from `scratch`
    joined      the base's weights, episodes of all tasks in equal shares: the paper's fine-tuning, keeps the old tasks

All are evaluated from the evaluator's own starts, which constant commands, random actions and the script play as well.

The folders below `--work` hold everything that is not finished, and `--out` the finished rows. The same command again
continues until nothing is left to do (`complete`): a job that a time limit interrupted starts again, and finished arms
are skipped. Where the detector does not judge cover-object, no arm has a reward: the seed is named in `without_reward`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
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

from polytask.mtopt.config.commands import TaskConfig
from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.detector import Judge
from polytask.mtopt.detector.folder import path_of
from polytask.mtopt.roles import Collector
from polytask.mtopt.roles.orders import SCRIPT, Order
from polytask.mtopt.runtime.folder import RunFolder
from polytask.mtopt.runtime.label_jobs import LabelJobs
from polytask.mtopt.runtime.local import LocalRuntime
from polytask.mtopt.seeds import derive
from polytask.mtopt.store import EpisodeStore
from polytask.mtopt.task_commands import task as task_command

NEW = "cover-object"
ARMS = ("scratch", "continued", "joined")
# Each is a preset, with: tasks of the base (none: the twelve), cover-object episodes, updates of an arm, episodes of
# evaluation, settings of the runs.
# Tiny: with the preset's 300 updates for all tasks, a detector does not learn cover-object well enough for the gate.
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {
        "tasks": ["lift-any", "place-any"],
        "new_episodes": 384,
        "updates": 300,
        "episodes": 128,
        "words": ("detector.updates=1500",),
    },
    "gpu": {"tasks": [], "new_episodes": 3072, "updates": 1500, "episodes": 512, "words": ()},
}
FREE = ("seconds", "seeds", "arms", "work", "threads")  # flags that may differ from one command to the next


class Study:
    """The runs of one seed."""

    def __init__(self, arguments: argparse.Namespace, report: Report, seed: int) -> None:
        """Read the settings; nothing is written yet."""
        self.arguments, self.report, self.stops, self.seed = arguments, report, Deadline(report), seed
        self.root = Path(arguments.work) / f"{arguments.size}-seed{seed}"

    def config(self, name: str, tasks: Sequence[str], **parts: Any) -> RunConfig:
        """Return the settings of a run below the working folder that learns some tasks."""
        config = run_config(
            self.arguments, self.root / name, self.seed, self.arguments.size, [f"tasks=[{','.join(tasks)}]"]
        )
        return replace(config, **parts)

    @property
    def old(self) -> tuple[str, ...]:
        """Return the tasks of the base."""
        return tuple(self.arguments.tasks) or self.config("base", ()).learned

    def base(self) -> RunConfig:
        """Train the old tasks, or what is left of it."""
        config = self.config("base", self.old)
        if not self._has_new(config):
            with closing(LocalRuntime(config, self.report.say)) as runtime:
                runtime.run(self.stops)
        self.stops.check()
        return config

    def add_new(self) -> RunConfig:
        """Let the run learn the new task: scripts collect, then label, detector and grades. Done parts are skipped."""
        before = self.base()
        if not self._has_new(before):
            task_command(TaskConfig(run_dir=str(before.root), action="learn", name=NEW))
        config = self.config("base", (*self.old, NEW))
        self._collect(config)
        alone, jobs = replace(config, tasks=[NEW]), LabelJobs(config)
        passes = config.labels.passes
        for part in range(passes):
            version = f"{NEW}-{part + 1}"
            if path_of(config.detectors, version).exists():
                continue
            self.stops.check()
            made = LabelJobs(alone).label(0, part)
            self.report.say(f"{made['labels']:.0f} labels of all tasks; training detector {version}")
            jobs.train_detector(version)
        self.stops.check()
        jobs.grade_new(self.stops)
        self.stops.check()
        return config

    def arm(self, name: str) -> dict[str, Any]:
        """Train and evaluate one arm; return its row."""
        whole = self.add_new()
        tasks = whole.learned if name == "joined" else (NEW,)
        config = replace(whole, run_dir=str(self.root / name), tasks=list(tasks))
        if not config.root.exists():
            copy_run(whole.root, config.root, without=WEIGHTS if name == "scratch" else ())
        start = 0 if name == "scratch" else updates_of(whole.root)
        left = start + self.arguments.updates - updates_of(config.root)
        if left > 0:
            with closing(LocalRuntime(config, self.report.say, is_plan=False)) as runtime:
                runtime.train(left, self.stops)
        self.stops.check()
        made = updates_of(config.root) - start
        return {"seed": self.seed, "arm": name, "updates": made, **self.evaluated(config, name != "scratch")}

    def before(self) -> dict[str, Any]:
        """Evaluate the base, which has never learned the new task; also return the data that the arms learn from."""
        config = self.add_new()
        with closing(EpisodeStore(config.root, config.storage)) as store:
            labels, collected = store.labels(NEW, source="oracle"), store.counts_by("task")[NEW]
            judge = Judge(config.detectors, "cpu")
            judge.sync()
            verdicts = store.rewards(NEW, judge.version, judge.threshold(NEW))
        data: dict[str, Any] = {
            "episodes": collected,
            "pictures_labelled": len(labels),  # as a person: one look each, in the page's order
            "labelled_successes": sum(one.value > 0.5 for one in labels),
            "successes_by_detector": sum(verdicts.values()),
            **gate_of(config),
        }
        data["is_rewarded"] = NEW in data["judged"]
        return {"seed": self.seed, "arm": "before", "updates": 0, "data": data, **self.evaluated(config, True)}

    def baselines(self) -> dict[str, Any]:
        """Play the evaluator's starts of the new task by simple policies and by the script; weights play no part."""
        config = self.config("base", (*self.old, NEW))
        config.evaluator = replace(config.evaluator, simple=True)
        found = evaluation(config, [NEW], is_scripted=True)[NEW]
        return {"script": found["success"], **(found["simple"] or {}), "episodes": found["episodes"]}

    def evaluated(self, config: RunConfig, has_old: bool) -> dict[str, Any]:
        """Evaluate the newest weights of a run in the new task, and in the broad old ones if it ever learned them."""
        watched = [task for task in self.arguments.watched if task in self.old and has_old]
        found = evaluation(config, [NEW, *watched])
        own = found[NEW]
        kept = ("success", "low", "high", "episodes", "verdict", "wrong", "length", "commands")
        return {**{key: own[key] for key in kept}, "old": {task: found[task]["success"] for task in watched}}

    def _has_new(self, config: RunConfig) -> bool:
        folder = RunFolder(config.root)
        return folder.read() is not None and NEW in folder.config().learned

    def _collect(self, config: RunConfig) -> None:
        """Collect the new task's episodes by its script; a sequence that is stored already is not repeated."""
        wanted = self.arguments.new_episodes
        alone = replace(config, tasks=[NEW], world=replace(config.world, num_envs=min(wanted, config.world.num_envs)))
        with closing(EpisodeStore(config.root, config.storage)) as store:
            if store.counts_by("task").get(NEW, 0) >= wanted:
                return
        with closing(Collector(alone, "cover")) as collector:
            done, number = 0, 0
            while done < wanted:
                self.stops.check()
                done += int(collector.step(Order(derive(self.seed, "cover", number), {NEW: SCRIPT}))["episodes"])
                number += 1
                self.report.say(f"{done} episodes of {NEW}")


def rates_of(rows: Sequence[dict[str, Any]]) -> list[dict[str, float | int]]:
    """Return the rate of each row in the new task, with the count of its episodes."""
    return [{"mean": row["success"], "count": row["episodes"]} for row in rows]


def summarize(report: Report) -> None:
    """Pool the seeds of each arm, and compare the arms with `scratch` and with the best policy that sees nothing."""
    arms: dict[str, list[dict[str, Any]]] = {}
    for row in report.results.get("rows", []):
        arms.setdefault(row["arm"], []).append(row)
    rates = {arm: rates_of(rows) for arm, rows in arms.items()}
    report.put("table", {arm: pooled(rows) for arm, rows in rates.items()})
    pairs = {arm: of_common_seeds(arms.get(arm, []), arms.get("scratch", [])) for arm in ARMS if arm != "scratch"}
    above = {arm: contrast(*map(rates_of, pair)) for arm, pair in pairs.items() if all(pair)}
    if above:
        report.put("above_scratch", above)
    simple = [report.results["baselines"]]
    report.put("above_blind", {arm: above_blind(rows, simple) for arm, rows in rates.items()})


def body(arguments: argparse.Namespace, report: Report) -> None:
    """Do what is left: the baselines once, then every seed and arm."""
    report.resume(("baselines", "rows"), FREE)
    torch.set_num_threads(arguments.threads)
    done = {(row["seed"], row["arm"]): row for row in report.results.get("rows", [])}
    report.put("complete", False, quiet=True)
    try:
        for seed in arguments.seeds:
            study = Study(arguments, report, seed)
            for arm in ("before", *arguments.arms):
                if (seed, arm) in done:
                    continue
                if arm != "before" and not done[seed, "before"]["data"]["is_rewarded"]:
                    report.say(f"seed {seed}: the detector does not judge {NEW}, so no arm has a reward; {MORE_LABELS}")
                    break
                if arm != "before":
                    require_base(study.config("base", ()), done[seed, "before"]["data"], seed)
                row = study.before() if arm == "before" else study.arm(arm)
                if "baselines" not in report.results:
                    report.put("baselines", study.baselines())
                done[seed, arm] = row
                report.append("rows", {**row, "simple": report.results["baselines"]})
                summarize(report)
        heads = [row for row in report.results["rows"] if row["arm"] == "before"]
        report.put("without_reward", [row["seed"] for row in heads if not row["data"]["is_rewarded"]])
        report.put("complete", True)  # nothing is left to do: a seed without a reward gets none by another call
    except TimeIsUpError:
        report.say("the time is over; the same command continues")


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Read the flags and run."""
    flags = study_flags(__doc__, "runs/cover_object", SIZES, ARMS)
    add = flags.add_argument
    add("--tasks", nargs="+", default=None, help="of the base (default: the size's)")
    add("--new-episodes", type=int, default=None, help="of cover-object, at least (default: the size's)")
    add("--watched", nargs="*", default=["lift-any", "place-any"], help="old tasks that are evaluated too")
    arguments = flags.parse_args(argv)
    fill_in(arguments, SIZES[arguments.size])
    take_device(flags, arguments, lambda: run_config(arguments, Path(arguments.work), 0, arguments.size, []))
    return run("cover_object", arguments, body)


if __name__ == "__main__":
    main()
