"""Exploration noise that is correlated in time, for tasks that fail.

White noise has another direction at every step. Fingers need several steps to close, so under white noise they hardly
ever hold an object for long enough to lift it. Noise that lasts for some steps tries such motions. The idea is that of
Hollenstein et al., "Colored Noise in PPO", AAAI 2024 (arXiv 2312.11091). They choose the spectrum of the noise of a
whole rollout; here each step keeps a share c of the step before:

    noise[t] = c * noise[t - 1] + sqrt(1 - c^2) * white[t]

Whatever c is, the noise of a single step is standard normal. So densities, probability ratios and entropies are those
of the policy without correlation, c may change between two steps, and a new episode goes on with the last noise.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class CorrelatedNoise:
    """The last noise of every world, and the share of it that each task keeps."""

    def __init__(self, task: Tensor, num_tasks: int, action_dim: int) -> None:
        """Start with white noise, for worlds whose tasks are `task` (N,)."""
        self._task = task
        self._last = torch.zeros(len(task), action_dim, device=task.device)
        self._share = torch.zeros(num_tasks, device=task.device)  # (K,) c of each task

    def correlate(self, share: Tensor) -> None:
        """Set the share (K,) that each task keeps from the next step on."""
        self._share.copy_(share)  # in place, because a captured graph reads it

    def follow(self, white: Tensor) -> Tensor:
        """Return the next noise (N, A), made with standard normal numbers `white` (N, A)."""
        share = self._share[self._task].unsqueeze(-1)
        self._last.copy_(share * self._last + (1 - share.square()).sqrt() * white)
        return self._last.clone()

    def state_dict(self) -> dict[str, Any]:
        """Return the last noise and the shares."""
        return {"last": self._last.clone(), "share": self._share.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._last.copy_(state["last"])
        self._share.copy_(state["share"])
