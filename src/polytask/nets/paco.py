"""PaCo, parameter composition: every task's network is a learned mixture of shared parameter sets.

Sun et al., "PaCo: Parameter-Compositional Multi-Task Reinforcement Learning", NeurIPS 2022 (arXiv 2210.11653).

Differences from the paper: The mixture weights are a softmax, as in MTBench. Losses above `grads.max_loss` are masked,
by default none; the mixture of such a task becomes the average of the other tasks', where the paper draws a random
average. Policy and value have separate networks.
Differences from MTBench: MTBench starts all S sets as the same matrix, so all mixtures are equal. Here each set is
drawn separately and scaled so that an even mixture has the variance of one layer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from polytask.nets import layers
from polytask.nets.layers import COUNT, WIDTH
from polytask.nets.task_axes import TaskAxis
from polytask.nets.task_code import rows
from polytask.settings import setting


@dataclass
class PacoConfig:
    """Settings of the composed network."""

    name: str = "paco"
    sets: int = setting(5, "parameter sets to compose from: 5 for MT10, 20 for MT50", **COUNT)
    hidden: list[int] = setting([400, 400, 400], "widths of the hidden layers", **WIDTH)
    activation: str = setting("relu", "activation of the hidden layers", choices=layers.ACTIVATIONS)


def orthonormal(weight: Tensor, generator: Generator) -> None:
    """Draw a matrix with orthonormal rows or columns."""
    nn.init.orthogonal_(weight, generator=generator)


class ComposedLinear(nn.Module):
    """A linear layer whose weight and bias are a mixture of S sets, different for each row."""

    def __init__(self, sets: int, in_dim: int, out_dim: int, generator: Generator, init: layers.Init) -> None:
        """Draw every set separately; biases start at zero."""
        super().__init__()
        # Without the factor, the mean of S independent sets would have 1 / S of their variance.
        drawn = layers.parameter((sets, out_dim, in_dim), generator, init).detach() * math.sqrt(sets)
        self.weight = nn.Parameter(drawn.transpose(0, 1).contiguous())  # (out, S, in), so that flattening needs no copy
        self.bias = layers.parameter((sets, out_dim), generator)

    def forward(self, x: Tensor, mixture: Tensor) -> Tensor:
        """Map (B, in) to (B, out) under mixtures (B, S).

        The mixture weighs S copies of the input, not S outputs, so that one matrix product also sums over the sets.
        """
        copies = (mixture[:, :, None] * x[:, None, :]).flatten(1)  # (B, S * in)
        return functional.linear(copies, self.weight.flatten(1)) + torch.matmul(mixture, self.bias)


class Paco(nn.Module):
    """A perceptron of composed layers, including the output layer."""

    def __init__(self, cfg: PacoConfig, shape: layers.NetShape, generator: Generator) -> None:
        """Draw the sets and the tasks' mixture logits."""
        super().__init__()
        self.logits = layers.parameter((shape.num_tasks, cfg.sets), generator, orthonormal)
        self.task_axes = {"logits": TaskAxis(0)}
        self.activation = layers.ACTIVATIONS[cfg.activation]()
        widths = [shape.in_dim, *cfg.hidden]
        pairs = pairwise(widths)
        self.hidden = nn.ModuleList([ComposedLinear(cfg.sets, i, o, generator, layers.orthogonal) for i, o in pairs])
        self.output = ComposedLinear(cfg.sets, widths[-1], shape.out_dim, generator, orthonormal)

    def forward(self, x: Tensor, task: Tensor) -> Tensor:
        """Map inputs (B, O) of tasks (B,) to outputs (B, out)."""
        mixture = rows(self.logits.softmax(dim=-1), task)  # (B, S)
        for layer in self.hidden:
            x = self.activation(layer(x, mixture))
        output: Tensor = self.output(x, mixture)
        return output

    @torch.no_grad()
    def reset_tasks(self, is_bad: Tensor) -> None:
        """Give the tasks that `is_bad` (K,) marks the mean logits of the others, if there is any other."""
        good = (~is_bad).to(self.logits.dtype)
        mean = good @ self.logits / good.sum().clamp_min(1.0)  # (S,)
        self.logits.copy_(torch.where((is_bad & ~is_bad.all())[:, None], mean, self.logits))
