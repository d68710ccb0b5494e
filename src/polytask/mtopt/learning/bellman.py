"""Targets of Q-learning: the reward, or the value of the best next action by two older networks.

    V(s') = min(Q1(s', a*), Q2(s', a*)),   a* = argmax_a Q1(s', a), found by CEM
    target = clip(r - cost + gamma (1 - done) V(s'), 0, 1)

Differences from the paper: an optional lower bound. A stored episode proves that its discounted return, less the cost
of its steps, is possible, so a target need not lie below it. The bound carries a reward through a whole episode at
once; without it, a reward moves back one step for each copy of the lagged network. The bound is biased upwards where
the same actions sometimes fail, so it is off by default.
"""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.mtopt.config.learning import BellmanConfig
from polytask.mtopt.learning.acting import best_action
from polytask.mtopt.learning.transitions import Transitions
from polytask.mtopt.networks import QNetwork
from polytask.mtopt.records import Observation


def return_to_go(success: Tensor, remaining: Tensor, config: BellmanConfig) -> Tensor:
    """Return the discounted return (B,) of episodes from a step on, in [0, 1]: the final reward less all costs.

    Args:
        success: (B,) whether the episode succeeded.
        remaining: (B,) actions of the episode after this one.
        config: Discount and cost.
    """
    gamma, left = config.gamma, remaining.float()
    # Each step from this one to the last costs: 1 + gamma + ... + gamma ** remaining.
    steps = left + 1 if gamma == 1 else (1 - gamma ** (left + 1)) / (1 - gamma)
    return (success * gamma**left - config.cost * steps).clamp(0, 1)


@torch.no_grad()
def targets(
    q1: QNetwork,
    q2: QNetwork,
    batch: Transitions,
    config: BellmanConfig,
    generator: torch.Generator,
    lower_bound: Tensor | None = None,
) -> Tensor:
    """Return the targets (B,) in [0, 1] of a batch of transitions.

    Args:
        q1: Chooses the next action and values it: the Polyak average.
        q2: Values the same action: the lagged copy.
        batch: Transitions.
        config: Discount, cost and search.
        generator: Source of the CEM samples, on the batch's device.
        lower_bound: Return (B,) of each transition's episode from it on, as `return_to_go` computes it; None for the
            paper's target.
    """
    after = Observation(batch.next_image, batch.next_closed, batch.next_height, batch.next_pose)
    action, logit = best_action(q1, after, batch.task, config.cem, generator)
    second = q2(after.image, after.closed, after.height, batch.task, action.unsqueeze(1), after.pose).squeeze(1)
    value = torch.minimum(logit, second).sigmoid()
    target = batch.reward - config.cost + config.gamma * (1 - batch.done.to(value.dtype)) * value
    if lower_bound is not None:
        target = torch.maximum(target, lower_bound)
    return target.clamp(0, 1)
