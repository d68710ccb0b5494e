"""Shake every task with random actions: no NaN, no divergence, and a count of objects flung out of reach.

python benchmarks/random_actions.py --out benchmarks/results/random_actions_cpu.json
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from pathlib import Path

from publish import origin, publish

import polytask
from polytask.random_actions import REACH_HIGH, REACH_LOW, random_actions
from polytask.tasks import SUITES


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
    parser.add_argument("--out", type=Path, help="also write the JSON to this file")
    return parser.parse_args()


def main() -> None:
    """Shake task by task."""
    options = parse()
    tasks = {}
    begin = time.perf_counter()
    for task in options.tasks:
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
        )
        counts = random_actions(env, options.steps, options.seed, options.hold)[task]
        env.close()
        tasks[task] = {**asdict(counts), "farthest": [round(each, 3) for each in counts.farthest]}
        print(task, tasks[task], file=sys.stderr, flush=True)
    totals = {name: sum(one[name] for one in tasks.values()) for name in ("nan", "diverged", "out_of_reach")}
    result = {
        "what": "uniform random actions in every task",
        **origin(options.device),
        "robot": options.robot,
        "sim": options.sim,
        "worlds_per_task": options.worlds,
        "steps": options.steps,
        "hold": options.hold,
        "seed": options.seed,
        "reach": {"low": REACH_LOW, "high": REACH_HIGH},
        "seconds": round(time.perf_counter() - begin, 1),
        "totals": totals,
        "tasks": tasks,
    }
    publish(result, options.out)


if __name__ == "__main__":
    main()
