"""Apply random actions to an environment and count the events that must not happen.

These are NaN, divergence, overflow of buffers, and objects out of reach.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.envs.multi_task import MultiTaskEnv
from polytask.sim.view import constant

# An object outside this box has left the table and its surroundings. The robot cannot bring it back.
REACH_LOW, REACH_HIGH = (-1.0, 0.0, -0.2), (1.0, 1.6, 1.2)
_OBJECTS = ((4, 7), (11, 14))  # columns of an observation with the positions of the first and the second object


@dataclass(frozen=True)
class RandomActionCounts:
    """Counts of events in the worlds of one task."""

    worlds: int
    steps: int
    nan: int  # world-steps whose observation or reward was not finite
    diverged: int  # number of times that the simulation of a world diverged
    overflow: int  # world-steps with too many contacts or constraints; each is also counted as diverged
    out_of_reach: int  # worlds in which an object was outside the box of REACH_LOW and REACH_HIGH at any step
    farthest: tuple[float, float, float]  # the object position farthest from the middle of the table


@torch.no_grad()
def random_actions(env: MultiTaskEnv, steps: int, seed: int = 0, hold: int = 1) -> dict[str, RandomActionCounts]:
    """Apply uniform random actions for `steps` control steps and count per task.

    Actions that change at every step only shake the hand near its start. An action that is held for `hold` steps moves
    the hand across the table and into objects.
    """
    generator = torch.Generator(env.device).manual_seed(seed)
    num_envs = env.spec.num_envs
    nan = torch.zeros(num_envs, dtype=torch.int64, device=env.device)
    overflow = torch.zeros_like(nan)
    is_out = torch.zeros(num_envs, dtype=torch.bool, device=env.device)
    middle = constant((0.0, 0.6, 0.0), env.obs)
    farthest = env.obs[:, 4:7].clone()
    # An object slot that a task does not use is always zero.
    is_shown = [(env.obs[:, start:stop] != 0).any(-1) for start, stop in _OBJECTS]
    env.pop_metrics()
    action = torch.zeros(num_envs, env.spec.action_dim, device=env.device)
    for index in range(steps):
        if index % hold == 0:
            action.uniform_(-1.0, 1.0, generator=generator)
        step = env.step(action)
        finite = step.next_obs.isfinite().all(-1) & step.obs.isfinite().all(-1) & step.reward.isfinite()
        nan += ~finite
        overflow += torch.cat([group.batch.overflowed for group in env.groups])
        for (start, stop), shown in zip(_OBJECTS, is_shown, strict=True):
            position = step.next_obs[:, start:stop]
            is_out |= shown & _is_outside(position)
            is_farther = shown & ((position - middle).norm(dim=-1) > (farthest - middle).norm(dim=-1))
            farthest = torch.where(is_farther[:, None], position, farthest)
    diverged = env.pop_metrics()["diverged"]
    counts = {}
    for index, task in enumerate(env.spec.tasks):
        rows = env.task == index
        far = farthest[rows]
        worst = far[(far - middle).norm(dim=-1).argmax()].tolist()
        counts[task] = RandomActionCounts(
            worlds=int(rows.sum()),
            steps=steps,
            nan=int(nan[rows].sum()),
            diverged=int(diverged[index]),
            overflow=int(overflow[rows].sum()),
            out_of_reach=int(is_out[rows].sum()),
            farthest=(worst[0], worst[1], worst[2]),
        )
    return counts


def _is_outside(position: Tensor) -> Tensor:
    """Return which positions (N, 3) are outside the reachable box, (N,) bool."""
    low, high = constant(REACH_LOW, position), constant(REACH_HIGH, position)
    return ((position < low) | (position > high)).any(-1)
