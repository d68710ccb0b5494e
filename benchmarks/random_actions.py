"""Apply random actions in every task, and count NaN, divergence, overflow and objects out of reach.

python benchmarks/random_actions.py --out benchmarks/results/random_actions_cpu.json

The file is rewritten after each task, so that an interrupted run keeps its results. `--resume` continues such a run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from publish import layout, origin, publish
from random_action_counts import REACH_HIGH, REACH_LOW, random_actions

import polytask
from polytask.envs.suites import SUITES
from polytask.files import write_text

COUNTED = ("nan", "diverged", "overflow", "out_of_reach")
# All tasks in one file must be measured with the same values of these.
SETTINGS = ("device", "version", "commit", "torch", "robot", "sim", "worlds_per_task", "steps", "hold", "seed")


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(SUITES["mt50"]), help="task names (default: all 50)")
    parser.add_argument("--robot", default="sawyer", help="robot")
    parser.add_argument("--sim", default="cpu", help="physics backend: cpu or warp")
    parser.add_argument("--device", default="cpu", help="torch device")
    parser.add_argument("--worlds", type=int, default=64, help="worlds per task")
    parser.add_argument("--steps", type=int, default=2000, help="control steps, all in one episode")
    parser.add_argument("--hold", type=int, default=1, help="control steps for which an action is held")
    parser.add_argument("--seed", type=int, default=0, help="seed of goals and actions")
    parser.add_argument("--jobs", type=int, default=1, help="tasks to run in parallel, each in its own process")
    parser.add_argument("--out", type=Path, help="also write the JSON to this file, after each task")
    parser.add_argument("--resume", action="store_true", help="keep the tasks of --out that have the same settings")
    options = parser.parse_args()
    if options.resume and options.out is None:
        parser.error("--resume needs --out, the file to continue")
    if options.jobs < 1:
        parser.error(f"--jobs {options.jobs} must be at least 1")
    return options


def shake(task: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run one task with random actions. Each task has its own process."""
    torch.set_num_threads(1)
    begin = time.perf_counter()
    env = polytask.make(
        tasks=[task],
        num_envs=options.worlds,
        robot=options.robot,
        sim=options.sim,
        device=options.device,
        # Longer than the run, so that no time limit resets an object that is out of reach.
        episode_length=options.steps + 1,
        stagger=False,
        seed=options.seed,
        threads=1,
        copy=False,
    )
    counts = random_actions(env, options.steps, options.seed, options.hold)[task]
    env.close()
    farthest = [round(each, 3) for each in counts.farthest]
    return {**asdict(counts), "farthest": farthest, "seconds": round(time.perf_counter() - begin, 1)}


def describe(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of the measurement, the code version and the machine."""
    return {
        "what": "uniform random actions in every task",
        **origin(options.device),
        "robot": options.robot,
        "sim": options.sim,
        "worlds_per_task": options.worlds,
        "steps": options.steps,
        "hold": options.hold,
        "seed": options.seed,
        "jobs": options.jobs,
        "reach": {"low": REACH_LOW, "high": REACH_HIGH},
    }


def finished(options: argparse.Namespace, about: dict[str, Any]) -> tuple[dict[str, Any], float]:
    """Return the tasks that an earlier run with the same settings finished, and its duration in seconds."""
    if not options.resume or not options.out.is_file():
        return {}, 0.0
    before = json.loads(options.out.read_text())
    differing = [name for name in SETTINGS if before.get(name) != about[name]]
    if about["commit"] is None or about["commit"].endswith("-dirty"):
        differing.append("commit")  # unknown, or with uncommitted changes: the code may have been different
    # A file from before these counts existed cannot be combined with new counts.
    is_old = any(name not in one for one in before["tasks"].values() for name in COUNTED)
    if differing or is_old:
        why = ", ".join(dict.fromkeys(differing)) or "counts"
        print(f"starting from the beginning: {options.out} differs, or may differ, in: {why}", file=sys.stderr)
        return {}, 0.0
    return {task: one for task, one in before["tasks"].items() if task in options.tasks}, before["seconds"]


def summary(about: dict[str, Any], tasks: dict[str, Any], wanted: list[str], seconds: float) -> dict[str, Any]:
    """Combine the finished tasks, in the order of `wanted`."""
    done = {task: tasks[task] for task in wanted if task in tasks}
    return {
        **about,
        "seconds": round(seconds, 1),
        "missing": [task for task in wanted if task not in tasks],
        "totals": {name: sum(one[name] for one in done.values()) for name in COUNTED},
        "tasks": done,
    }


def main() -> None:
    """Run the tasks that are left, `--jobs` at a time, and publish the result."""
    options, begin = parse(), time.perf_counter()
    about = describe(options)
    tasks, before = finished(options, about)
    left = [task for task in options.tasks if task not in tasks]
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(shake, task, options): task for task in left}
        for future in as_completed(running):
            task = running[future]
            tasks[task] = future.result()
            print(task, tasks[task], file=sys.stderr, flush=True)
            if options.out is not None:
                text = layout(summary(about, tasks, options.tasks, before + time.perf_counter() - begin)) + "\n"
                options.out.parent.mkdir(parents=True, exist_ok=True)
                write_text(options.out, text)
    publish(summary(about, tasks, options.tasks, before + time.perf_counter() - begin), options.out)


if __name__ == "__main__":
    main()
