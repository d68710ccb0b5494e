"""A learner: one network with its loss, gradient method and optimizer; helpers for Adam, bfloat16 and generators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from polytask.cuda_graph import fused
from polytask.grads import Backward
from polytask.grads.backward import gram_matrix
from polytask.grads.diagnostics import conflict_metrics


@runtime_checkable
class Projected(Protocol):
    """A module whose parameters must be projected after every optimizer step."""

    def after_step(self) -> None:
        """Project the parameters, in place."""
        ...


@runtime_checkable
class TaskParameters(Protocol):
    """A module with parameters of single tasks, which can be drawn anew from those of the other tasks."""

    def reset_tasks(self, is_bad: Tensor) -> None:
        """Reset, in place, the parameters of the tasks that `is_bad` (K,) marks."""
        ...


class Learner:
    """Takes optimizer steps on one network; on a CUDA device a step can be captured into a graph.

    The optimizer never sees a number that is not finite. A step is skipped if no task has a finite loss, or if the norm
    of the gradient is not finite. The parameters then stay as they are. So do the moments of a fused optimizer; other
    optimizers count a step with a zero gradient. `pop_skipped` tells how often this happened.
    """

    def __init__(self, backward: Backward, optimizer: Optimizer, max_norm: float = math.inf) -> None:
        """Store the parts.

        Args:
            backward: Gradient method, network and loss.
            optimizer: Optimizer of the network's parameters; its learning rate must be a tensor.
            max_norm: Bound on the norm of the network's whole gradient; a longer gradient is scaled down.
        """
        self.backward, self.optimizer, self.max_norm = backward, optimizer, max_norm
        self.net = backward.net
        self._projected = [module for module in self.net.modules() if isinstance(module, Projected)]
        self._resets = [module for module in self.net.modules() if isinstance(module, TaskParameters)]
        self._batch: Any = None  # of the last step; a replayed graph overwrites the tensors of its capture
        self._iteration = 0
        self._used = torch.zeros_like(backward.method.last_losses)  # (K,) updates that used each task
        self._weights = torch.zeros_like(self._used)  # (K,) sums of the tasks' weights since `pop_weights`
        self._skip = torch.zeros((), device=self._used.device)  # 1 if the current step is skipped, else 0
        self._project = fused(self._project_all, self._used.device, is_wanted=backward.is_fused)
        self._judge = fused(self._judge_step, self._used.device, is_wanted=backward.is_fused)
        self._is_fused = bool(optimizer.defaults.get("fused"))
        if self._is_fused:
            optimizer.found_inf = self._skip  # type: ignore[attr-defined]  # its kernel reads this, as for GradScaler

    @property
    def looks_back(self) -> bool:
        """Whether the gradient method evaluates each batch again after the step."""
        return self.backward.method.needs_after_step

    def step(self, batch: Any) -> tuple[Tensor, Tensor]:
        """Learn from one task-major batch; return the task losses (K,) and the gradient norm () before clipping."""
        result = self.descend(batch)
        self.look_back()
        return result

    def descend(self, batch: Any) -> tuple[Tensor, Tensor]:
        """Take the optimizer step, without `look_back`; return the same as `step`."""
        self._batch = batch
        losses = self.backward(batch)
        if self.backward.method.has_own_weights:
            self._weights.add_(self.backward.weights)
        gradients = [parameter.grad for parameter in self.net.parameters() if parameter.grad is not None]
        norm, factor = self._judge(torch._foreach_norm(gradients))
        if self.max_norm < math.inf:
            torch._foreach_mul_(gradients, factor)
        if self._is_fused:
            self.optimizer.step()
        else:
            self._step_without_fusion()
        self._project()
        return losses, norm

    @torch.no_grad()
    def _judge_step(self, norms: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Return the norm () of the whole gradient and the factor () that clips it; decide whether to skip the step.

        Args:
            norms: Norms () of the gradients of all parameters.
        """
        norm = torch.linalg.vector_norm(torch.stack(list(norms)))
        used = self.backward.method.is_finite & (norm < math.inf)  # (K,)
        self._used.add_(used)
        self._skip.copy_(~used.any())
        return norm, (self.max_norm / (norm + 1e-6)).clamp(max=1.0)

    def _project_all(self) -> None:
        """Project the parameters of all modules that need it, and reset those of tasks whose losses are masked."""
        for module in self._projected:
            module.after_step()
        if self.backward.method.masks_losses:
            for own in self._resets:
                own.reset_tasks(~self.backward.method.is_used)

    def _step_without_fusion(self) -> None:
        """Take the optimizer step, or if it is skipped, one with a zero gradient and a learning rate of zero."""
        skip, groups = self._skip.bool(), self.optimizer.param_groups
        rates = [group["lr"].clone() for group in groups]
        for group in groups:
            group["lr"].masked_fill_(skip, 0.0)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad.masked_fill_(skip, 0.0)
        self.optimizer.step()
        for group, rate in zip(groups, rates, strict=True):
            group["lr"].copy_(rate)

    def pop_skipped(self, updates: int) -> Tensor:
        """Return the share () of the last `updates` updates that left out the task that was left out most often."""
        share = (updates - self._used.amin()) / max(1, updates)
        self._used.zero_()
        return share

    def pop_weights(self, updates: int, name: str, tasks: Sequence[str]) -> dict[str, Tensor]:
        """Return the mean weights of the tasks over the last `updates` updates, as metrics `per_task/TASK/NAME_weight`.

        Equal weights are no news, so a method that always gives them (the mean) has no such metrics.
        """
        if not self.backward.method.has_own_weights:
            return {}
        means = self._weights / max(1, updates)
        self._weights.zero_()
        return {f"per_task/{task}/{name}_weight": mean for task, mean in zip(tasks, means, strict=True)}

    def look_back(self) -> None:
        """Let the gradient method evaluate the last batch again, after the optimizer step."""
        self.backward.after_step(self._batch)

    def conflicts(self, prefix: str, tasks: Sequence[str]) -> dict[str, Tensor]:
        """Return norms and cosines of the last batch's task gradients every `conflicts_every` calls, else nothing.

        Call it once per iteration. With `conflicts_every` 0 it returns them only if the method computes them anyway.
        """
        every, gram = self.backward.method.conflicts_every, self.backward.gram
        self._iteration += 1
        is_due = self._iteration % every == 0 if every > 0 else gram is not None
        has_gradients = gram is not None or self._batch is not None  # not before the first step
        if not (is_due and has_gradients):
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
        """Change the learning rate in the tensor that a captured step reads."""
        for group in self.optimizer.param_groups:
            group["lr"].fill_(value)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of network, optimizer and gradient method."""
        return {
            "net": self.net.state_dict(),
            "optimizer": self.optimizer.state_dict()["state"],
            "grads": self.backward.method.state_dict(),
            "losses": self.backward.method.last_losses,
            "iteration": self._iteration,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned; the optimizer keeps the settings of this run."""
        self.net.load_state_dict(state["net"])
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state["optimizer"], "param_groups": groups})
        self.backward.method.load_state_dict(state["grads"])
        self.backward.method.last_losses.copy_(state.get("losses", self.backward.method.last_losses))
        self._iteration = state.get("iteration", 0)


def adam(net: nn.Module, lr: float, device: torch.device, eps: float = 1e-8, weight_decay: float = 0.0) -> Adam:
    """Build an Adam optimizer whose step is one kernel; its learning rate is a tensor, so that it can be captured.

    Args:
        net: Network to optimize.
        lr: Learning rate.
        device: Device of the parameters.
        eps: Added to the root of the second moment.
        weight_decay: Decoupled weight decay (AdamW): each step multiplies a parameter by 1 - lr * weight_decay.
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
    """Return a context in which networks run in bfloat16, or one without effect."""
    # No cache of cast weights, because a captured graph must cast them at every replay.
    return torch.autocast(device.type, torch.bfloat16, enabled=bf16, cache_enabled=False)


def restore_generator(generator: torch.Generator, state: Tensor) -> None:
    """Restore the saved state of a generator, unless it comes from another kind of device."""
    if len(state) == len(generator.get_state()):  # a state cannot move between CPU and GPU
        generator.set_state(state.cpu())
