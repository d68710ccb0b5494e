"""Worlds of a task that fails, in which the policy acts as it does in another task that succeeds.

Where the reward does not lead to the object, a task is left to its noise, which hardly ever reaches, grips and lifts.
The policy can do that already, in other tasks, and now and then this is a success here. So some worlds of a task that
fails are lent to other tasks, a new one in every rollout. Their steps are those of another policy, so the policy
gradient leaves them out; what succeeds there is imitated (`success_memory.py`). QMP (Zhang et al., ICLR 2025, arXiv
2302.00671) and CTPG (He et al., NeurIPS 2024, arXiv 2507.06615) share behaviour between off-policy learners, which can
learn from all of it. There a critic or a guide chooses the other task; here it is chance, and each is as likely as it
is successful.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Generator, Tensor

from polytask.errors import UserError


def lent_worlds(count: int, share: float) -> int:
    """Return how many of the `count` worlds of a task may act as other tasks; at least one may not, if share < 1."""
    return int(count * share + 1e-9)  # 100 * 0.29 is a little less than 29


class Borrowing:
    """As which task the policy acts in every world.

    Attributes:
        task: The task as which it acts in the current rollout. (N,)
        counted: Whether this is the world's own task, so that the policy gradient may use its steps. (N,) bool
        always: Whether it is so in every rollout. The success of a task is counted in these worlds. (N,) bool
    """

    def __init__(self, task: Tensor, envs_per_task: Sequence[int], share: float) -> None:
        """Let every world act as its own task first.

        Args:
            task: Task of each world. (N,)
            envs_per_task: Number of worlds of each task.
            share: Share of the worlds of each task that may act as other tasks: the last ones.

        Raises:
            UserError: If there is no other task, or no world to lend.
        """
        if len(envs_per_task) == 1:
            raise UserError("algo.borrow_share does not apply: there is no other task to borrow from; leave it at 0")
        if not any(lent_worlds(count, share) for count in envs_per_task):
            raise UserError(
                f"algo.borrow_share={share} lends less than one world of each task, got {tuple(envs_per_task)}; give "
                "more worlds or a larger share, or leave it at 0"
            )
        self._own, self._num_tasks = task, len(envs_per_task)
        counts = torch.tensor(envs_per_task)
        lent = torch.tensor([lent_worlds(count, share) for count in envs_per_task])
        place = torch.arange(len(task)) - torch.repeat_interleave(counts.cumsum(0) - counts, counts)  # within the task
        self.always = (place < torch.repeat_interleave(counts - lent, counts)).to(task.device)
        # A captured graph reads these two, so they are changed in place.
        self.task = task.clone()
        self.counted = torch.ones_like(self.always)

    @torch.no_grad()
    def draw(self, success: Tensor, generator: Generator) -> None:
        """Choose the tasks of the next rollout.

        A world of a task with success s acts as a task with success z, all being equally likely, with probability
        (1 - s) z. So nothing is borrowed before something succeeds, or once the task does.

        Args:
            success: Share of each task's recent episodes that succeeded. (K,)
            generator: Source of randomness.
        """
        worlds, device = len(self._own), self._own.device
        other = torch.randint(self._num_tasks, (worlds,), generator=generator, device=device)
        chance = torch.rand(worlds, generator=generator, device=device)
        borrows = ~self.always & (chance < (1 - success[self._own]) * success[other])
        self.task.copy_(torch.where(borrows, other, self._own))
        self.counted.copy_(self.task == self._own)
