"""One network in training: its loss, gradient method and optimiser, stepped and saved together."""

from __future__ import annotations

import math
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from polytask.grads import Backward
from polytask.grads.diagnostics import conflict_metrics


@runtime_checkable
class Projected(Protocol):
    """A module whose parameters must be put back in place after every optimiser step."""

    def after_step(self) -> None:
        """Project the parameters, in place."""
        ...


class Learner:
    """Takes optimiser steps on one network; on a CUDA device a step can be captured into a graph."""

    def __init__(self, backward: Backward, optimizer: Optimizer, max_norm: float = math.inf) -> None:
        """Bind the parts.

        Args:
            backward: Gradient method, network and loss.
            optimizer: Of the network's parameters, with a tensor as its learning rate.
            max_norm: Largest norm of the network's whole gradient; a longer one is shortened.
        """
        self.backward, self.optimizer, self.max_norm = backward, optimizer, max_norm
        self.net = backward.net
        self._projected = [module for module in self.net.modules() if isinstance(module, Projected)]

    def step(self, batch: Any) -> tuple[Tensor, Tensor]:
        """Learn from one task-major batch; return the task losses (K,) and the gradient's norm () before clipping."""
        losses = self.backward(batch)
        norm = nn.utils.clip_grad_norm_(self.net.parameters(), self.max_norm)
        self.optimizer.step()
        for module in self._projected:
            module.after_step()
        self.backward.after_step(batch)
        return losses, norm

    def conflicts(self, prefix: str) -> dict[str, Tensor]:
        """Describe how the task gradients of the last step met, for methods that compare them; else nothing."""
        if self.backward.gram is None:
            return {}
        found = conflict_metrics(self.backward.gram)
        return {f"{prefix}/{name}": found[name] for name in ("cosine_min", "cosine_mean", "cosine_max")}

    def set_learning_rate(self, value: float) -> None:
        """Change the learning rate where a captured step will read it."""
        for group in self.optimizer.param_groups:
            group["lr"].fill_(value)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of network, optimiser and gradient method."""
        return {
            "net": self.net.state_dict(),
            "optimizer": self.optimizer.state_dict()["state"],
            "grads": self.backward.method.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned; the optimiser's settings stay this run's own."""
        self.net.load_state_dict(state["net"])
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state["optimizer"], "param_groups": groups})
        self.backward.method.load_state_dict(state["grads"])


def adam(net: nn.Module, lr: float, device: torch.device, eps: float = 1e-8, weight_decay: float = 0.0) -> Adam:
    """Make an Adam whose step is one kernel and whose learning rate is a tensor, so that it can be captured.

    Args:
        net: Network whose parameters it moves.
        lr: Learning rate.
        device: Where the parameters lie.
        eps: Added to the root of the second moment.
        weight_decay: Share of itself, times the learning rate, that a parameter loses each step (AdamW).
    """
    rate = torch.tensor(lr, device=device)
    return Adam(
        net.parameters(),
        lr=rate,
        eps=eps,
        weight_decay=weight_decay,
        fused=True,
        capturable=device.type == "cuda",
        decoupled_weight_decay=True,
    )
