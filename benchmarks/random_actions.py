"""Shake every task with random actions: no NaN, no divergence, no overflow, and a count of objects flung out of reach.

python benchmarks/random_actions.py --out benchmarks/results/random_actions_cpu.json

The file is written anew after each task, so that a run that is cut keeps what it has; `--resume` goes on from there.
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
# Tasks measured with other values of these do not belong into one file.
SETTINGS = ("device", "version", "commit", "torch", "robot", "sim", "worlds_per_task", "steps", "hold", "seed")


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(SUITES["mt50"]), help="task names (default: all fifty)")
    parser.add_argument("--robot", default="sawyer", help="robot")
    parser.add_argument("--sim", default="cpu", help="physics backend: cpu or warp")
    parser.add_argument("--device", default="cpu", help="torch device")
    parser.add_argument("--worlds", type=int, default=64, help="worlds per task")
    parser.add_argument("--steps", type=int, default=2000, help="control steps, all of them one episode")
    parser.add_argument("--hold", type=int, default=1, help="control steps that an action lasts")
    parser.add_argument("--seed", type=int, default=0, help="seed of goals and actions")
    parser.add_argument("--jobs", type=int, default=1, help="tasks to shake at once, each in a process of its own")
    parser.add_argument("--out", type=Path, help="also write the JSON to this file, after each task")
    parser.add_argument("--resume", action="store_true", help="keep the tasks that --out has with the same settings")
    options = parser.parse_args()
    if options.resume and options.out is None:
        parser.error("--resume needs --out, the file to go on with")
    if options.jobs < 1:
        parser.error(f"--jobs {options.jobs}: at least one is needed")
    return options


def shake(task: str, options: argparse.Namespace) -> dict[str, Any]:
    """Shake one task, in a process of its own."""
    torch.set_num_threads(1)
    begin = time.perf_counter()
    env = polytask.make(
        tasks=[task],
        num_envs=options.worlds,
        robot=options.robot,
        sim=options.sim,
        device=options.device,
        # Longer than the run: no time limit may put a flung object back.
        episode_length=options.steps + 1,
        stagger=False,
        seed=options.seed,
        threads=1,
    )
    counts = random_actions(env, options.steps, options.seed, options.hold)[task]
    env.close()
    farthest = [round(each, 3) for each in counts.farthest]
    return {**asdict(counts), "farthest": farthest, "seconds": round(time.perf_counter() - begin, 1)}


def describe(options: argparse.Namespace) -> dict[str, Any]:
    """Say what is measured, with what."""
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
    """Return what an earlier run with the same settings found, and the seconds it took."""
    if not options.resume or not options.out.is_file():
        return {}, 0.0
    before = json.loads(options.out.read_text())
    differing = [name for name in SETTINGS if before.get(name) != about[name]]
    if about["commit"] is None or about["commit"].endswith("-dirty"):
        differing.append("commit")  # unknown, or with changes that nobody wrote down: it may be another code
    # A file of before these counts existed cannot be added up with new ones.
    is_old = any(name not in one for one in before["tasks"].values() for name in COUNTED)
    if differing or is_old:
        why = ", ".join(dict.fromkeys(differing)) or "other counts"
        print(f"starting anew: {options.out} has another or an unclear state of: {why}", file=sys.stderr)
        return {}, 0.0
    return {task: one for task, one in before["tasks"].items() if task in options.tasks}, before["seconds"]


def summary(about: dict[str, Any], tasks: dict[str, Any], wanted: list[str], seconds: float) -> dict[str, Any]:
    """Put the finished tasks together, in the order they were asked for."""
    done = {task: tasks[task] for task in wanted if task in tasks}
    return {
        **about,
        "seconds": round(seconds, 1),
        "missing": [task for task in wanted if task not in tasks],
        "totals": {name: sum(one[name] for one in done.values()) for name in COUNTED},
        "tasks": done,
    }


def main() -> None:
    """Shake some tasks at a time."""
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
