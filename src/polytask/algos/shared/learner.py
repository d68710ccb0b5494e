"""One network in training: its loss, gradient method and optimizer, stepped and saved together; its precision."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from polytask.grads import Backward
from polytask.grads.backward import gram_matrix
from polytask.grads.diagnostics import conflict_metrics


@runtime_checkable
class Projected(Protocol):
    """A module whose parameters must be put back in place after every optimizer step."""

    def after_step(self) -> None:
        """Project the parameters, in place."""
        ...


class Learner:
    """Takes optimizer steps on one network; on a CUDA device a step can be captured into a graph."""

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
        self._batch: Any = None  # of the last step; a replayed graph overwrites the tensors that it was captured with
        self._iteration = 0

    @property
    def looks_back(self) -> bool:
        """Whether the gradient method evaluates each batch again after the step."""
        return self.backward.method.needs_after_step

    def step(self, batch: Any) -> tuple[Tensor, Tensor]:
        """Learn from one task-major batch; return the task losses (K,) and the gradient's norm () before clipping."""
        result = self.descend(batch)
        self.look_back()
        return result

    def descend(self, batch: Any) -> tuple[Tensor, Tensor]:
        """Do what `step` does, up to the look back."""
        self._batch = batch
        losses = self.backward(batch)
        norm = nn.utils.clip_grad_norm_(self.net.parameters(), self.max_norm)
        self.optimizer.step()
        for module in self._projected:
            module.after_step()
        return losses, norm

    def look_back(self) -> None:
        """Let the gradient method see what the last step did."""
        self.backward.after_step(self._batch)

    def conflicts(self, prefix: str, tasks: Sequence[str]) -> dict[str, Tensor]:
        """Describe, once an iteration, how the task gradients of the last batch meet, when it is time to."""
        every, gram = self.backward.method.conflicts_every, self.backward.gram
        self._iteration += 1
        if self._iteration % every if every else gram is None:
            return {}
        if gram is None and self._batch is None:  # nothing was learned yet
            return {}
        if gram is None:
            gram = gram_matrix(self.backward.task_gradients(self._batch)[1])
        found = conflict_metrics(gram)
        norms = found.pop("norms")
        return {
            **{f"{prefix}/{name}": value for name, value in found.items()},
            **{f"{prefix}/norms/{task}": norm for task, norm in zip(tasks, norms, strict=True)},
        }

    def set_learning_rate(self, value: float) -> None:
        """Change the learning rate where a captured step will read it."""
        for group in self.optimizer.param_groups:
            group["lr"].fill_(value)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of network, optimizer and gradient method."""
        return {
            "net": self.net.state_dict(),
            "optimizer": self.optimizer.state_dict()["state"],
            "grads": self.backward.method.state_dict(),
            "iteration": self._iteration,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned; the optimizer's settings stay this run's own."""
        self.net.load_state_dict(state["net"])
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state["optimizer"], "param_groups": groups})
        self.backward.method.load_state_dict(state["grads"])
        self._iteration = state.get("iteration", 0)


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


def autocast(device: torch.device, bf16: bool) -> AbstractContextManager[Any]:
    """Run networks in bfloat16, or leave them as they are."""
    # No cache of cast weights: a captured graph must cast them anew at every replay.
    return torch.autocast(device.type, torch.bfloat16, enabled=bf16, cache_enabled=False)


def restore_generator(generator: torch.Generator, state: Tensor) -> None:
    """Go on with a saved stream of random numbers, unless it comes from another kind of device."""
    if len(state) == len(generator.get_state()):  # a stream cannot move between CPU and GPU
        generator.set_state(state.cpu())
