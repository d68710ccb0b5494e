"""What every gradient method offers: a weight per task from the tasks' losses and, if asked for, their Gram matrix.

Dimension letters: K tasks, P parameters. With task gradients g_1 .. g_K as the rows of the Jacobian J (K, P), the Gram
matrix is J J^T (K, K) and the gradient of a parameter group is w^T J, for the weights w that the method returns.

All methods work at the scale of the mean gradient, so that one learning rate serves them all. Each module says which
of three conventions it follows:

* *convex*: the weights are non-negative and sum to 1 (mean, MGDA, FAMO, uncertainty);
* *anchored*: the result is the mean gradient when no two tasks conflict, or stays close to it (PCGrad, UPGrad, CAGrad);
* *direction*: the paper defines a direction only, or ties its length to something else; the result has the length
  sqrt(tr(J J^T)) / K that the mean of K orthogonal gradients of the same sizes has (IMTL-G, Nash-MTL, Aligned-MTL).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from polytask.errors import UserError
from polytask.settings import setting

GROUPS = ("critic", "actor", "both")


@dataclass
class GradConfig:
    """Settings that all gradient methods share."""

    apply_to: str = setting(
        "critic", "parameter group the method acts on: critic, actor or both; the other uses the mean"
    )

    conflicts_every: int = setting(
        0,
        "iterations between logs of the cosines and norms of the tasks' gradients (0: only where they cost nothing)",
    )

    def __post_init__(self) -> None:
        """Refuse values that mean nothing."""
        if self.apply_to not in GROUPS:
            raise UserError(f"grads.apply_to is {self.apply_to!r}; choose one of {', '.join(GROUPS)}")
        if self.conflicts_every < 0:
            raise UserError(f"grads.conflicts_every is {self.conflicts_every}; at least 0 is needed")


class GradMethod(Protocol):
    """A rule that gives one weight per task; methods derive from it and override what differs.

    Attributes:
        needs_gram: False if the losses suffice, which makes an update cost one ordinary backward pass.
        needs_after_step: True if `after_step` must be called after every optimizer step.
        conflicts_every: As in the config, for whoever logs.
    """

    needs_gram: bool = True
    needs_after_step: bool = False
    conflicts_every: int = 0

    def __init__(self, cfg: GradConfig, num_tasks: int, device: torch.device, generator: torch.Generator) -> None:
        """Keep the method's own config and make its state on the device."""

    def weights(self, losses: Tensor, gram: Tensor | None) -> Tensor:
        """Return the weights (K,) of one update; methods with state advance it, so call once an update.

        Args:
            losses: Detached losses of the tasks. (K,)
            gram: Dot products of the tasks' gradients, None if the method does not need them. (K, K)
        """
        ...

    def after_step(self, losses: Callable[[], Tensor]) -> None:
        """Learn from what the optimizer step did; `losses` re-evaluates the same minibatch's losses (K,)."""
        return

    def state_dict(self) -> dict[str, Tensor]:
        """Return the live tensors that must survive a restart; empty for a method without state."""
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Copy a saved state into the live tensors, whose addresses a captured graph may hold."""
        for name, tensor in self.state_dict().items():
            tensor.copy_(state[name])


def required(gram: Tensor | None) -> Tensor:
    """Return the Gram matrix, or say that the caller forgot to build it."""
    if gram is None:
        raise TypeError("this gradient method needs the Gram matrix of the task gradients")
    return gram
