"""Find where our worlds and the original Meta-World part, and what touches what there.

A policy plays some goals of a task in our worlds. Its actions are then fed to Meta-World from the same starts. Noted
are the first step after which a position in the two observations differs by more than 2 mm, and the pairs of shapes
that touch in ours up to three steps later. `tests/benchmarks/test_metaworld_parting.py` tries it on a stand-in.

    python benchmarks/metaworld_parting.py --tasks door-unlock plate-slide-side --out benchmarks/results/parting.json
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import torch
from peer import add_arguments, peer_python
from publish import origin, publish
from shaped_rewards import worlds_of
from torch import Tensor

import polytask
from polytask.envs.multi_task import MultiTaskEnv
from polytask.policies.policy import Policy
from polytask.runs.evaluate import set_goals
from polytask.runs.metaworld.worlds import MetaWorldWorlds

STEPS = 150
APART = 0.002  # metres
AFTER = 3  # steps within which what touches may be the cause, as seen in our worlds
# Positions within the current frame of an observation, in the order of its entries.
POSITIONS = {"hand": slice(0, 3), "first object": slice(4, 7), "second object": slice(11, 14)}


@dataclass(frozen=True)
class Played:
    """One episode per goal in our worlds, step by step."""

    actions: Tensor  # (T, N, A)
    obs: Tensor  # (T, N, O)
    success: Tensor  # (T, N)
    touching: list[list[set[str]]]  # (T, N) pairs of shapes


@torch.no_grad()
def play(task: str, policy: Policy, goals: Tensor) -> Played:
    """Play a policy in our worlds, with one goal in each."""
    env = polytask.make(tasks=[task], num_envs=len(goals), goals="fixed", stagger=False, episode_length=STEPS + 1)
    set_goals(env, {task: goals})
    act, obs, zero = policy.for_tasks([task]), env.obs, torch.zeros(len(goals), dtype=torch.int64)
    played: tuple[list[Any], ...] = ([], [], [], [])
    for _ in range(STEPS):
        action = act(obs, zero)
        step = env.step(action)
        obs = step.obs
        for column, value in zip(played, (action, step.next_obs, step.success, touching(env)), strict=True):
            column.append(value)
    env.close()
    actions, seen, success, pairs = played
    return Played(torch.stack(actions), torch.stack(seen), torch.stack(success), pairs)


def touching(env: MultiTaskEnv) -> list[set[str]]:
    """Return the pairs of shapes that touch, for each world of the only task."""
    (worlds,) = worlds_of(env)
    model, data, found = worlds.model, mujoco.MjData(worlds.model), []
    for qpos, mocap in zip(worlds.batch.qpos.double(), worlds.batch.mocap_pos.double(), strict=True):
        data.qpos[:], data.mocap_pos[:] = qpos.numpy(), mocap[worlds.mocaps].numpy()
        mujoco.mj_forward(model, data)
        pairs = ([shape(model, geom) for geom in contact.geom] for contact in data.contact[: data.ncon])
        found.append({" and ".join(sorted(pair)) for pair in pairs})
    return found


def shape(model: mujoco.MjModel, geom: int) -> str:
    """Name a shape: the name of the geom if it has one, and its body and kind."""
    kind = mujoco.mjtGeom(model.geom_type[geom]).name.removeprefix("mjGEOM_").lower()
    return model.geom(geom).name or f"{kind} of {model.body(model.geom_bodyid[geom]).name}"


def replay(task: str, played: Played, worlds: MetaWorldWorlds) -> list[dict[str, Any]]:
    """Feed the actions to Meta-World and return, for each goal, where the two part."""
    found = []
    for goal in range(played.actions.shape[1]):
        steps = [worlds.step(played.actions[number, goal : goal + 1]) for number in range(STEPS)]
        obs = torch.cat([step.next_obs for step in steps])  # (T, O)
        gaps = torch.stack([(obs - played.obs[:, goal])[:, part].norm(dim=-1) for part in POSITIONS.values()])
        apart = (gaps > APART).any(0)
        first = int(apart.int().argmax()) if apart.any() else None
        near = range(0) if first is None else range(max(0, first - 1), min(STEPS, first + AFTER + 1))
        found.append({
            "success": [bool(played.success[:, goal].any()), any(bool(step.success[0]) for step in steps)],
            "first_step_apart": first,
            "apart": None if first is None else list(POSITIONS)[int(gaps[:, first].argmax())],
            "millimetres_then": None if first is None else round(1000 * float(gaps[:, first].max()), 1),
            "millimetres_at_the_end": {
                name: round(1000 * float(gap[-1]), 1) for name, gap in zip(POSITIONS, gaps, strict=True)
            },
            "touching": sorted(set().union(*(played.touching[number][goal] for number in near))),
        })  # fmt: skip
    return found


def summary(episodes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Count over the goals of a task."""
    touching = Counter(pair for one in episodes for pair in one["touching"])
    return {
        "goals": len(episodes),
        "success_ours": sum(one["success"][0] for one in episodes),
        "success_of_the_same_actions_in_meta_world": sum(one["success"][1] for one in episodes),
        "part": sum(one["first_step_apart"] is not None for one in episodes),
        "touching_where_they_part": dict(touching.most_common()),
        "episodes": episodes,
    }


def main() -> None:
    """Compare all tasks and store the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", required=True, help="task names")
    parser.add_argument("--policy", default="mt50", help="a policy file, a run, or a suite with a pretrained policy")
    parser.add_argument("--goals", type=int, default=10, help="goals per task")
    parser.add_argument("--seed", type=int, default=100, help="seed of Meta-World's goals")
    add_arguments(parser)
    options = parser.parse_args()
    facts, policy = origin(), polytask.load_policy(options.policy)
    python, tasks = peer_python(options.peer_python), {}
    for task in options.tasks:
        with MetaWorldWorlds(python, [task], STEPS, workers=1, device=torch.device("cpu")) as worlds:
            worlds.open(options.goals, options.seed)
            played = play(task, policy, worlds.goals[task].float())
            tasks[task] = summary(replay(task, played, worlds))
            versions = worlds.versions
    about = "where the worlds part when Meta-World gets the actions of a policy in ours, from the same starts"
    publish({"what": about, **facts, "metaworld": versions, "seed": options.seed, "tasks": tasks}, options.out)


if __name__ == "__main__":
    main()
