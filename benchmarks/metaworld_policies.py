"""Run Meta-World's scripted policies in our Sawyer environment and in Meta-World, and compare their success.

The policies run in the virtual environment of the peer (Meta-World). Observations and actions are sent over a pipe, one
message for all worlds of a task. Both sides have the same goals, those of `metaworld.MT1(task, seed)`. Success is
success at any step.

    python benchmarks/metaworld_policies.py --out benchmarks/results/metaworld_policies_cpu.json
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
import torch
from peer import add_arguments, peer_python, start_worker
from publish import origin, publish

import polytask
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.suites import SUITES
from polytask.runs.metaworld.process import Process
from polytask.runs.metaworld.worker import ACTIONS, OBS

NOTABLE = 0.1  # the summary lists tasks whose success differs by more than this


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(SUITES["mt50"]), help="task names (default: all 50)")
    parser.add_argument("--goals", type=int, default=50, help="goals per task, at most 50")
    parser.add_argument("--steps", type=int, default=500, help="control steps per episode")
    parser.add_argument("--seed", type=int, default=42, help="seed of Meta-World's goals")
    add_arguments(parser)
    return parser.parse_args()


def make_env(task: str, vectors: torch.Tensor, steps: int) -> MultiTaskEnv:
    """Build one world per goal of the peer."""
    env = polytask.make(
        tasks=[task], num_envs=len(vectors), episode_length=steps, goals="fixed", stagger=False, threads=1, copy=False
    )
    (worlds,) = env.groups[0].tasks
    worlds.state.vector.copy_(vectors)
    worlds.has_vector.fill_(True)
    env.reset()
    return env


@torch.no_grad()
def drive(worker: Process, task: str, options: argparse.Namespace) -> list[int]:
    """Run the peer's policy in our worlds. Return the step of the first success of each world, or -1."""
    vectors = worker.ask({"ask": "experts", "task": task, "goals": options.goals, "seed": options.seed})["vectors"]
    env = make_env(task, torch.tensor(vectors), options.steps)
    first = torch.full((options.goals,), -1)
    for step in range(options.steps):
        worker.send(env.obs.numpy().tobytes())
        outcome = env.step(torch.tensor(worker.read((options.goals, ACTIONS))))
        first = torch.where((first < 0) & outcome.success, step, first)
        if bool((first >= 0).all()):
            break
    worker.send(np.full((options.goals, OBS), np.nan, np.float32).tobytes())
    env.close()
    return first.tolist()


def summary(first: list[int]) -> dict[str, Any]:
    """Return the share of successful episodes, the mean step of their first success, and the goals that failed."""
    reached = [step for step in first if step >= 0]
    failed = [goal for goal, step in enumerate(first) if step < 0]
    mean = round(float(np.mean(reached)), 1) if reached else None
    return {"success": len(reached) / len(first), "first_success_step": mean, "failed_goals": failed}


def main() -> None:
    """Compare task by task."""
    options = parse()
    torch.set_num_threads(1)
    worker = start_worker(peer_python(options.peer_python))
    versions = worker.ask({"ask": "versions"})
    tasks = {}
    for task in options.tasks:
        ours = summary(drive(worker, task, options))
        question = {"ask": "own", "task": task, "goals": options.goals, "seed": options.seed, "steps": options.steps}
        theirs = summary(worker.ask(question)["first"])
        difference = round(ours["success"] - theirs["success"], 4)
        tasks[task] = {"ours": ours, "peer": theirs, "difference": difference}
        print(f"{task:28} ours {ours['success']:.2f}  peer {theirs['success']:.2f}", file=sys.stderr, flush=True)
    worker.close()
    means = {
        side: round(float(np.mean([one[side]["success"] for one in tasks.values()])), 4) for side in ("ours", "peer")
    }
    result = {
        "what": "success at any step of Meta-World's scripted policies, in our environment and in Meta-World",
        **origin(),
        "peer": versions,
        "goals": options.goals,
        "steps": options.steps,
        "seed": options.seed,
        "mean_success": means,
        "difference": round(means["ours"] - means["peer"], 4),
        "notable": [task for task, one in tasks.items() if abs(one["difference"]) > NOTABLE],
        "tasks": tasks,
    }
    publish(result, options.out)


if __name__ == "__main__":
    main()
