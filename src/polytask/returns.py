"""Turn rewards and value estimates of a rollout into advantages; every function is a pure one of (T, N) tensors.

`terminated` marks a true end, after which there is nothing to earn. `done` marks any end, terminated or truncated,
after which the next row belongs to another episode. Telling them apart makes a time limit invisible to the learner.
"""

from __future__ import annotations

import torch
from torch import Tensor


def td_error(reward: Tensor, value: Tensor, next_value: Tensor, terminated: Tensor, gamma: float) -> Tensor:
    """Compute the one-step error r + gamma V(s') - V(s), with V(s') = 0 where the episode terminated.

    Args:
        reward: (T, N)
        value: Value of the observation acted on. (T, N)
        next_value: Value of the observation the action led to, taken before any reset. (T, N)
        terminated: (T, N) bool
        gamma: Discount.
    """
    return reward + gamma * next_value * ~terminated - value  # (T, N)


def discounted_sum(x: Tensor, done: Tensor, discount: float) -> Tensor:
    """Sum each row and those after it in the same episode, y_t = x_t + discount (1 - done_t) y_{t+1}.

    Args:
        x: (T, N)
        done: The episode ended with this step, for whatever reason. (T, N) bool
        discount: Factor from one step to the one before.
    """
    keep = discount * (~done).to(x.dtype)  # (T, N)
    total = torch.empty_like(x)
    running = torch.zeros_like(x[0])
    for t in range(len(x) - 1, -1, -1):
        running = torch.addcmul(x[t], keep[t], running)
        total[t] = running
    return total


def gae(delta: Tensor, done: Tensor, gamma: float, lam: float) -> Tensor:
    """Compute generalised advantages (Schulman et al. 2016, eq. 16) from the one-step errors of `td_error`.

    A truncated step bootstraps through its `delta` and a terminated one does not; neither reads the row after it.

    Args:
        delta: (T, N)
        done: terminated | truncated. (T, N) bool
        gamma: Discount.
        lam: Weight of longer returns: 0 is the one-step error, 1 the Monte Carlo return less the value.
    """
    return discounted_sum(delta, done, gamma * lam)
