"""How often each task has succeeded lately, counted on the device from rollouts that cut episodes anywhere."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from polytask.nets.task_code import one_hot

MEMORY = 0.9  # weight that earlier rollouts keep at each update


class RecentSuccess:
    """The share of each task's recent episodes that succeeded at any of their steps."""

    def __init__(self, task: Tensor, num_tasks: int, counted: Tensor | None = None) -> None:
        """Start without episodes, for worlds whose tasks are `task` (N,); those `counted` (N,) count, or all."""
        self._member = one_hot(task, num_tasks, torch.float64)  # (N, K)
        if counted is not None:
            self._member *= counted.unsqueeze(-1)
        self._succeeded = torch.zeros_like(task)  # (N,) 1 if the episode that goes on has succeeded, else 0
        self._counts = torch.zeros(2, num_tasks, dtype=torch.float64, device=task.device)  # successes and episodes

    @torch.no_grad()
    def update(self, success: Tensor, done: Tensor) -> None:
        """Count the episodes that ended in a rollout.

        Args:
            success: Whether a step was a success. (T, N) bool
            done: Whether an episode ended with the step. (T, N) bool
        """
        hits = self._succeeded + success.cumsum(dim=0)  # (T, N) successful steps up to each step, which never fall
        by_end = torch.where(done, hits, 0).cummax(dim=0).values  # those up to the last end
        before = torch.cat([torch.zeros_like(hits[:1]), by_end[:-1]])  # those of earlier episodes
        ended = torch.stack([done & (hits > before), done]).sum(dim=1)  # (2, N)
        self._counts.mul_(MEMORY).add_(ended.double() @ self._member)
        self._succeeded.copy_(hits[-1] > by_end[-1])

    def restart(self) -> None:
        """Forget the episodes that go on, because all worlds were reset."""
        self._succeeded.zero_()

    def rate(self) -> Tensor:
        """Return the share of each task (K,); zero for a task without episodes."""
        successes, episodes = self._counts
        return (successes / episodes.clamp_min(1e-9)).float()

    def state_dict(self) -> dict[str, Any]:
        """Return the counts."""
        return {"succeeded": self._succeeded.clone(), "recent_episodes": self._counts.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the counts; a run that was saved without them starts anew."""
        self._succeeded.copy_(state.get("succeeded", self._succeeded))
        self._counts.copy_(state.get("recent_episodes", self._counts))
