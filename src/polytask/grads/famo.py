"""Speed up the tasks whose loss falls slowest, from the losses alone: FAMO.

Liu et al., FAMO: Fast Adaptive Multitask Optimization, NeurIPS 2023. With logits xi and z = softmax(xi), the update
follows sum_k z_k grad log(l_k - b_k), scaled to a convex combination of gradients:

    w_k = (z_k / D_k) / sum_j (z_j / D_j),   D_k = l_k - b_k + eps.

After the optimiser step the same minibatch's losses are evaluated again; delta_k = log D_k(before) - log D_k(after) is
task k's progress, and Adam moves xi against the gradient of z . delta, so that tasks that progress least gain weight.

Differences from the paper: the bound b_k, 0 in the paper, is a running one, because policy losses are negative. While a
task's losses are non-negative its bound is 0; otherwise it lies as far below the range of recent losses as the range is
wide, so that D varies at most twofold over that range.

Scale: convex. Cost: one backward pass, and one forward pass after the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.grads.method import GradConfig, GradMethod

BETA1, BETA2, ADAM_EPS = 0.9, 0.999, 1e-8  # Adam's usual constants


@dataclass
class FAMOConfig(GradConfig):
    """Settings of FAMO."""

    lr: float = 1e-3  # Adam's learning rate of the logits; the paper's supervised tasks use 0.025
    weight_decay: float = 1e-3  # decay of the logits towards equal weights (gamma in the paper)
    eps: float = 1e-2  # added to the losses; bounds the weight of a task whose loss is almost zero
    forget: float = 1e-3  # share by which the range of recent losses shrinks towards the current loss an update


class FAMO(GradMethod):
    """Loss weights learned from the progress that each step makes."""

    needs_gram = False
    needs_after_step = True

    def __init__(self, cfg: FAMOConfig, num_tasks: int, device: torch.device, generator: torch.Generator) -> None:
        """Start from equal logits."""
        self.cfg = cfg
        names = ("logits", "exp_avg", "exp_avg_sq", "lowest", "highest", "before")
        self.state = {name: torch.zeros(num_tasks, device=device) for name in names}  # (K,) each
        self.state["steps"] = torch.zeros((), device=device)

    def weights(self, losses: Tensor, gram: Tensor | None) -> Tensor:
        """Record the losses before the step and weigh them."""
        state, forget = self.state, self.cfg.forget
        state["before"].copy_(losses)
        state["lowest"].copy_(torch.minimum(losses, state["lowest"].lerp(losses, forget)))
        state["highest"].copy_(torch.maximum(losses, state["highest"].lerp(losses, forget)))
        ratio = state["logits"].softmax(0) / self._above_bound(losses)
        return ratio / ratio.sum()

    def after_step(self, losses: Callable[[], Tensor]) -> None:
        """Take one Adam step on the logits against the progress z . delta."""
        state = self.state
        delta = self._above_bound(state["before"]).log() - self._above_bound(losses()).log()
        share = state["logits"].softmax(0)
        gradient = share * (delta - (share * delta).sum()) + self.cfg.weight_decay * state["logits"]
        state["steps"] += 1
        state["exp_avg"].lerp_(gradient, 1 - BETA1)
        state["exp_avg_sq"].lerp_(gradient.square(), 1 - BETA2)
        first = state["exp_avg"] / (1 - BETA1 ** state["steps"])
        second = state["exp_avg_sq"] / (1 - BETA2 ** state["steps"])
        state["logits"] -= self.cfg.lr * first / (second.sqrt() + ADAM_EPS)

    def _above_bound(self, losses: Tensor) -> Tensor:
        """Return D (K,): how far the losses lie above their bounds, at least eps."""
        lowest, highest = self.state["lowest"], self.state["highest"]
        bound = torch.where(lowest < 0, 2 * lowest - highest, 0)
        return (losses - bound).clamp_min(0) + self.cfg.eps

    def state_dict(self) -> dict[str, Tensor]:
        """Return the logits, their Adam moments and the ranges of recent losses."""
        return self.state
