"""The interface of a gradient method: a weight per task, from the tasks' losses and optionally their Gram matrix.

Dimension letters: K tasks, P parameters. With task gradients g_1 .. g_K as the rows of the Jacobian J (K, P), the Gram
matrix is J J^T (K, K). The gradient of a parameter group is w^T J, for the weights w that the method returns.

All methods work at the scale of the mean gradient, so that all can use the same learning rate. Each module names the
convention that it follows:

* *convex*: The weights are non-negative and sum to 1 (mean, MGDA, FAMO, uncertainty).
* *anchored*: The result is the mean gradient when no two tasks conflict, or stays close to it (PCGrad, UPGrad, CAGrad).
* *direction*: The paper defines only a direction, or a length that is unrelated to the gradients. The result has the
  length sqrt(tr(J J^T)) / K of the mean of K orthogonal gradients of the same sizes (IMTL-G, Nash-MTL, Aligned-MTL).

A task whose loss is NaN or infinite is left out of the update, in the same way by all methods (`GradMethod.weigh`). The
method sees the task's last finite loss and a zero gradient, so its state stays finite. Then the task's weight is set to
zero. The other tasks get the weights that they have beside a task without gradient: the mean still divides by K, and
MGDA takes almost no step. With finite numbers every bit is the same as without this rule. With `max_loss` a task whose
loss is above it is left out in the same way: the loss masking of PaCo (Sun et al. 2022), which resets the task's
parameters too (`algos.shared.learner`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.settings import setting

GROUPS = ("critic", "actor", "both")


@dataclass
class GradConfig:
    """Settings that all gradient methods share."""

    apply_to: str = setting(
        "critic",
        "parameter group that the method acts on: critic, actor or both; the other group uses the mean",
        choices=GROUPS,
    )

    conflicts_every: int = setting(
        0,
        "iterations between logs of cosines and norms of task gradients; 0: only for methods that compute them anyway",
        at_least=0,
    )

    max_loss: float = setting(
        math.inf,
        "leave a task out of the updates in which its loss is above this, and let a network that can (paco) reset the "
        "task's own parameters",
        at_most=math.inf,
        is_free=True,
    )


class GradMethod(ABC):
    """A rule that gives one weight per task; methods derive from it and override what differs.

    Attributes:
        cfg: Settings; a method that reads its own annotates `cfg` with the class of its config.
        needs_gram: False if the losses are sufficient; an update then costs one ordinary backward pass.
        needs_after_step: True if `after_step` must be called after every optimizer step.
        has_own_weights: False if all tasks always have the same weight.
        is_finite: Whether each task had a finite loss in the last update. (K,) bool
        is_used: Whether the last update used the task: its loss was finite and not above `max_loss`. (K,) bool
        last_losses: Last finite loss of each task, zero before the first. (K,)
    """

    cfg: GradConfig
    needs_gram: bool = True
    needs_after_step: bool = False
    has_own_weights: bool = True

    def __init__(self, cfg: GradConfig, num_tasks: int, device: torch.device, generator: torch.Generator) -> None:
        """Store the config; a method with state overrides this and allocates its tensors on the device."""
        self.cfg = cfg
        self.is_finite = torch.ones(num_tasks, dtype=torch.bool, device=device)
        self.is_used = self.is_finite if cfg.max_loss == math.inf else self.is_finite.clone()
        self.last_losses = torch.zeros(num_tasks, device=device)

    @property
    def conflicts_every(self) -> int:
        """The setting of the config with the same name."""
        return self.cfg.conflicts_every

    @property
    def masks_losses(self) -> bool:
        """Whether tasks with large losses are left out."""
        return self.cfg.max_loss < math.inf

    def weigh(self, losses: Tensor, gram: Tensor | None) -> Tensor:
        """Return the weights (K,) of one update; a task whose loss is not finite, or is masked, gets zero.

        This advances the state of the method, so call it once per update.

        Args:
            losses: Detached losses of the tasks. (K,)
            gram: Dot products of the tasks' gradients, overwritten; None if the method does not need them. (K, K)
        """
        # Infinity minus itself is NaN. This takes two kernels, torch.isfinite four.
        torch.eq(losses - losses, 0, out=self.is_finite)
        if self.masks_losses:
            torch.logical_and(self.is_finite, losses <= self.cfg.max_loss, out=self.is_used)
        torch.where(self.is_used, losses, self.last_losses, out=self.last_losses)
        if gram is not None:
            gram.nan_to_num_(0.0, 0.0, 0.0).mul_(self.is_used).mul_(self.is_used[:, None])
        return self.weights(self.last_losses, gram) * self.is_used

    def look_back(self, losses: Callable[[], Tensor]) -> None:
        """Update the state after the optimizer step; `losses` evaluates the losses (K,) of the same minibatch again."""

        def finite_losses() -> Tensor:
            after = losses()
            return torch.where(after - after == 0, after, self.last_losses)

        self.after_step(finite_losses)

    @abstractmethod
    def weights(self, losses: Tensor, gram: Tensor | None) -> Tensor:
        """Return the weights (K,) of one update, and advance the state; `weigh` calls this with finite numbers.

        Args:
            losses: Losses of the tasks; a buffer that the next update overwrites. (K,)
            gram: Dot products of the tasks' gradients; None if the method does not need them. (K, K)
        """

    def after_step(self, losses: Callable[[], Tensor]) -> None:
        """Update the state after the optimizer step; `look_back` calls this with a function whose losses are finite."""
        return

    def state_dict(self) -> dict[str, Tensor]:
        """Return the tensors in use that a resumed run needs; empty for a method without state."""
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Copy a saved state into the tensors in use, because a captured graph may hold their addresses."""
        for name, tensor in self.state_dict().items():
            tensor.copy_(state[name])


def required(gram: Tensor | None) -> Tensor:
    """Return the Gram matrix.

    Raises:
        TypeError: If it is None.
    """
    if gram is None:
        raise TypeError("this gradient method needs the Gram matrix of the task gradients")
    return gram
