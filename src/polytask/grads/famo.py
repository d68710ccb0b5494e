"""Give more weight to the tasks whose loss falls slowest, using only the losses: FAMO.

Liu et al., FAMO: Fast Adaptive Multitask Optimization, NeurIPS 2023. With logits xi and z = softmax(xi), the update
follows sum_k z_k grad log(l_k - b_k), scaled to a convex combination of gradients:

    w_k = (z_k / D_k) / sum_j (z_j / D_j),   D_k = l_k - b_k + eps.

After the optimizer step the losses of the same minibatch are evaluated again. The progress of task k is delta_k =
log D_k(before) - log D_k(after). Adam moves xi against the gradient of z . delta, so the tasks with the least progress
gain weight. With `normalize_gradient` this gradient is divided by its norm first, as MTBench does (`norm_w_grad`).

Differences from the paper: The bound b_k, 0 in the paper, follows the losses, because policy losses are negative. While
a task's losses are non-negative, its bound is 0. Otherwise it lies below the range of recent losses, by the width of
that range, so that D varies at most twofold over the range.

Scale: convex. Cost: one backward pass, and one forward pass after the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim import Adam

from polytask.grads.method import GradConfig, GradMethod
from polytask.settings import setting


@dataclass
class FAMOConfig(GradConfig):
    """Settings of FAMO."""

    name: str = "famo"
    lr: float = setting(
        1e-3, "learning rate of the logits (Adam); the paper's supervised tasks use 0.025", at_least=0.0
    )
    weight_decay: float = setting(1e-3, "decay of the logits towards equal weights (gamma in the paper)", at_least=0.0)
    normalize_gradient: bool = setting(
        False, "divide the gradient of the logits by its norm, so that the logits also move while progress is slow"
    )
    eps: float = setting(1e-2, "added to the losses; bounds the weight of a task whose loss is almost zero", above=0.0)
    forget: float = setting(
        1e-3, "share by which the range of recent losses shrinks towards the current loss per update", within=(0.0, 1.0)
    )


class FAMO(GradMethod):
    """Loss weights learned from the progress of each step, with few operations, because each costs a GPU launch."""

    cfg: FAMOConfig
    needs_gram = False
    needs_after_step = True

    def __init__(self, cfg: FAMOConfig, num_tasks: int, device: torch.device, generator: torch.Generator) -> None:
        """Start from equal logits."""
        super().__init__(cfg, num_tasks, device, generator)
        names = ("logits", "exp_avg", "exp_avg_sq", "lowest", "highest")
        self.state = {name: torch.zeros(num_tasks, device=device) for name in names}  # (K,) each
        self.state["steps"] = torch.zeros((), device=device)
        logits, steps = self.state["logits"], self.state["steps"]
        # Adam's own weight decay adds gamma times the logits to their gradient, as the paper does.
        capturable = device.type == "cuda"
        self.optimizer = Adam([logits], cfg.lr, weight_decay=cfg.weight_decay, fused=True, capturable=capturable)
        moments = {name: self.state[name] for name in ("exp_avg", "exp_avg_sq")}
        self.optimizer.state[logits] = {"step": steps, **moments}

    def weights(self, losses: Tensor, gram: Tensor | None) -> Tensor:
        """Record the losses before the step and return their weights."""
        lowest, highest, logits = (self.state[name] for name in ("lowest", "highest", "logits"))
        torch.minimum(losses, lowest.lerp_(losses, self.cfg.forget), out=lowest)
        torch.maximum(losses, highest.lerp_(losses, self.cfg.forget), out=highest)
        self.depth = torch.sub(highest, lowest, alpha=2).mul_(lowest < 0)  # the bound is this far below zero
        self.before = self._log_above_bound(losses)
        return (logits - self.before).softmax(0)  # z / D, normalized

    def after_step(self, losses: Callable[[], Tensor]) -> None:
        """Take one Adam step on the logits against the progress z . delta."""
        delta = self.before - self._log_above_bound(losses())
        share = self.state["logits"].softmax(0)
        gradient = share * (delta - share @ delta)
        if self.cfg.normalize_gradient:
            gradient = gradient / (torch.linalg.vector_norm(gradient) + 1e-8)  # zero stays zero
        self.state["logits"].grad = gradient
        self.optimizer.step()

    def _log_above_bound(self, losses: Tensor) -> Tensor:
        """Return log D (K,), where D is the distance of the losses from their bounds, at least eps."""
        return (losses + self.depth).clamp_min_(0).add_(self.cfg.eps).log_()

    def state_dict(self) -> dict[str, Tensor]:
        """Return the logits, their Adam moments and the ranges of recent losses."""
        return self.state
