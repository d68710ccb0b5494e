"""Pure functions that compute advantages and targets (T, N) from the rewards and value estimates of a rollout.

`terminated` marks a true end, after which no reward follows. `done` marks any end, terminated or truncated, after which
the next row belongs to another episode. Because of this distinction the learner does not see the time limit.
"""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.nets.task_code import one_hot


def td_error(reward: Tensor, value: Tensor, next_value: Tensor, terminated: Tensor, gamma: float) -> Tensor:
    """Compute the one-step error r + gamma V(s') - V(s), with V(s') = 0 where the episode terminated.

    Args:
        reward: (T, N)
        value: Value of the observation before the action. (T, N)
        next_value: Value of the observation after the action, before any reset. (T, N)
        terminated: (T, N) bool
        gamma: Discount.
    """
    return reward + gamma * next_value * ~terminated - value  # (T, N)


def discounted_sum(x: Tensor, done: Tensor, discount: float) -> Tensor:
    """Return the discounted sums of all later rows of the same episode, y_t = x_t + discount (1 - done_t) y_{t+1}.

    Args:
        x: (T, N)
        done: The episode ended with this step, terminated or truncated. (T, N) bool
        discount: Factor per step.
    """
    keep = discount * (~done).to(x.dtype)  # (T, N)
    total = torch.empty_like(x)
    running = torch.zeros_like(x[0])
    for t in range(len(x) - 1, -1, -1):
        running = torch.addcmul(x[t], keep[t], running)
        total[t] = running
    return total


def gae(delta: Tensor, done: Tensor, gamma: float, lam: float) -> Tensor:
    """Compute generalized advantages (Schulman et al. 2016, eq. 16) from the one-step errors of `td_error`.

    A truncated step bootstraps through its `delta`, a terminated step does not. Neither reads the row after it.

    Args:
        delta: (T, N)
        done: terminated | truncated. (T, N) bool
        gamma: Discount.
        lam: Weight of longer returns: 0 is the one-step error, 1 the Monte Carlo return minus the value.
    """
    return discounted_sum(delta, done, gamma * lam)


def peng_q_lambda(
    reward: Tensor, next_value: Tensor, terminated: Tensor, truncated: Tensor, gamma: float, lam: float
) -> Tensor:
    """Compute the targets of Peng's Q(lambda) (Peng & Williams 1996), which need no action probabilities.

    Within an episode y_t = r_t + gamma ((1 - lam) v_t + lam y_{t+1}), where v_t = `next_value`. At a true end y_t is
    r_t. At a truncated step, and at the last step of the rollout, it is r_t + gamma v_t. No row reads another episode.

    Args:
        reward: (T, N)
        next_value: Greedy value of the observation after the action, before any reset. (T, N)
        terminated: (T, N) bool
        truncated: (T, N) bool
        gamma: Discount.
        lam: Weight of longer returns: 0 is the one-step target.
    """
    stops = terminated | truncated
    stops[-1] = True  # the steps after the rollout are unknown
    one_step = reward + gamma * next_value * ~terminated
    return discounted_sum(one_step - gamma * lam * next_value * ~stops, stops, gamma * lam)  # (T, N)


def group_advantage(
    score: Tensor, counted: Tensor, task: Tensor, num_tasks: int, *, by_time: bool = False, is_scaled: bool = True
) -> Tensor:
    """Standardize each score over the worlds of its task, (score - mean) / standard deviation (Shao et al. 2024).

    Args:
        score: Score of a row, such as its reward to go. (T, N)
        counted: Whether a row is part of the comparison; the advantage of other rows is 0. (T, N) bool
        task: (N,) int64
        num_tasks: Number of tasks K.
        by_time: Take the mean over the worlds at the same step instead of over all steps. In both cases the standard
            deviation is over all of the task's differences from the mean. So late steps, where little reward remains,
            weigh less than early ones.
        is_scaled: Divide by the standard deviation; otherwise only the mean is subtracted (Liu et al. 2025).
    """
    member = one_hot(task, num_tasks, torch.float64)  # (N, K)
    weight = counted.double()  # (T, N)

    def mean(x: Tensor, by_time: bool) -> Tensor:
        total, count = (x * weight) @ member, weight @ member  # (T, K)
        if not by_time:
            total, count = total.sum(dim=0, keepdim=True), count.sum(dim=0, keepdim=True)  # (1, K)
        return (total / count.clamp_min(1.0))[:, task]  # (T or 1, N)

    difference = (score - mean(score, by_time)) * weight
    if not is_scaled:
        return difference.to(score.dtype)
    deviation = mean(difference.square(), by_time=False).sqrt()
    return (difference / (deviation + 1e-8)).to(score.dtype)  # equal scores give zeros
