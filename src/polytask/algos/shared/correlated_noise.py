"""Exploration noise that is correlated in time, for tasks that fail.

White noise has another direction at every step. Fingers need several steps to close, so under white noise they hardly
ever hold an object for long enough to lift it. Noise that lasts for some steps tries such motions (Hollenstein et al.,
"Colored Noise in PPO", AAAI 2024, arXiv 2312.11091). Here an action keeps a share c of how far the action before it was
from the policy's mean:

    action[t] - mean[t] = c * (action[t - 1] - mean[t - 1]) + sqrt(1 - c^2) * std * white[t]

The variance over time is that of white noise. But an action is now likely only given the step before it, so densities
and divergences are those of this conditional distribution, and both means are learned (Korenkevych et al.,
"Autoregressive Policies for Continuous Control Deep Reinforcement Learning", IJCAI 2019, arXiv 1903.11524). The density
of a single step, without the one before, would give a biased gradient: the state shows which way the noise has pushed
so far, errors of the critic go along with it, and the policy drifts.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class CorrelatedNoise:
    """How far the last action of every world was from the policy's mean, and the share of it that each task keeps.

    Attributes:
        share: The share c of each task. (K,)
    """

    def __init__(self, task: Tensor, num_tasks: int, action_dim: int) -> None:
        """Start with white noise, for worlds that act as the tasks `task` (n,), which may change in place."""
        self._task = task
        self._excess = torch.zeros(len(task), action_dim, device=task.device)
        self.share = torch.zeros(num_tasks, device=task.device)

    def correlate(self, share: Tensor) -> None:
        """Set the share (K,) that each task keeps from the next step on."""
        self.share.copy_(share)  # in place, because a captured graph reads it

    def continue_from(self, excess: Tensor) -> None:
        """Set how far the last actions were from their means (n, A)."""
        self._excess.copy_(excess)

    def next(self, mean: Tensor, log_std: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log std (n, A) of the next actions, given the policy's own mean and log std (n, A)."""
        return given_last(mean, log_std, self._excess, self.share[self._task])

    def state_dict(self) -> dict[str, Any]:
        """Return the shares; `continue_from` sets the rest."""
        return {"share": self.share.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.share.copy_(state["share"])


def given_last(mean: Tensor, log_std: Tensor, excess: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and log std (..., A) of an action, given the one before it.

    Args:
        mean: The policy's own mean. (..., A)
        log_std: Its log std. (..., A)
        excess: How far the last action was from its own mean. (..., A)
        share: Share of the excess that the action keeps. (...)
    """
    share = share.unsqueeze(-1)
    return mean + share * excess, log_std + 0.5 * torch.log1p(-share.square())
