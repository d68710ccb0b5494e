"""Layers that the architectures share: seeded linear layers, and stacks of them that run as one matrix product.

Dimension letters: B batch, K tasks, E experts, D features. Every parameter is drawn from the given generator, on the
generator's device. So the same seed always gives the same network.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from polytask.nets.task_axes import TaskAxis
from polytask.settings import Range

Init = Callable[[Tensor, Generator], None]

# Valid sizes: a typing mistake must not ask for more memory than any machine has.
WIDTH: Range = {"at_least": 1, "at_most": 65_536}
COUNT: Range = {"at_least": 1, "at_most": 1_000}
ACTIVATIONS: dict[str, type[nn.Module]] = {
    "elu": nn.ELU,
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
}


@dataclass(frozen=True)
class NetShape:
    """Input width, output width and tasks of a network."""

    in_dim: int
    out_dim: int
    num_tasks: int
    task_names: tuple[str, ...] | None = None
    action_dim: int = 0  # entries of an action at the end of the input, for critics of state and action
    parts: int = 1  # equal parts of the output with different meanings, such as the means and spreads of a policy


def uniform(weight: Tensor, generator: Generator) -> None:
    """Draw uniform weights within 1 / sqrt(input width), as torch.nn.Linear does."""
    bound = 1.0 / math.sqrt(weight.shape[-1])
    nn.init.uniform_(weight, -bound, bound, generator=generator)


def xavier(weight: Tensor, generator: Generator) -> None:
    """Draw Glorot-uniform weights."""
    nn.init.xavier_uniform_(weight, generator=generator)


def orthogonal(weight: Tensor, generator: Generator) -> None:
    """Draw an orthogonal matrix with gain sqrt(2), which keeps the variance through a ReLU."""
    nn.init.orthogonal_(weight, gain=math.sqrt(2.0), generator=generator)


def zeros(weight: Tensor, generator: Generator) -> None:
    """Set all weights to zero; the generator is not used."""
    nn.init.zeros_(weight)


def parameter(shape: Sequence[int], generator: Generator, init: Init = zeros) -> nn.Parameter:
    """Build a parameter and draw each matrix of a stack separately, so that fan-in and fan-out are right."""
    value = nn.Parameter(torch.empty(*shape, device=generator.device))
    with torch.no_grad():
        for matrix in value.view(-1, *shape[-2:]):
            init(matrix, generator)
    return value


def linear(in_dim: int, out_dim: int, generator: Generator, *, init: Init = uniform, bias: bool = True) -> nn.Linear:
    """Build a linear layer with drawn weights and zero bias."""
    # Built without storage first, so that torch's own initialization does not use the global generator.
    layer = nn.Linear(in_dim, out_dim, bias=bias, device="meta").to_empty(device=generator.device)
    with torch.no_grad():
        init(layer.weight, generator)
        if bias:
            layer.bias.zero_()
    return layer


def mlp(widths: Sequence[int], activation: str, generator: Generator, *, init: Init = uniform) -> nn.Sequential:
    """Build linear layers of these widths, each followed by the activation; `[:-1]` removes the last activation."""
    kind = ACTIVATIONS[activation]
    layers: list[nn.Module] = []
    for in_dim, out_dim in pairwise(widths):
        layers += [linear(in_dim, out_dim, generator, init=init), kind()]
    return nn.Sequential(*layers)


class ExpertLinear(nn.Module):
    """E linear layers that run in parallel."""

    def __init__(self, experts: int, in_dim: int, out_dim: int, generator: Generator, init: Init = xavier) -> None:
        """Draw the weights of every expert separately; biases start at zero."""
        super().__init__()
        self.weight = parameter((experts, out_dim, in_dim), generator, init)  # (E, out, in)
        self.bias = parameter((experts, out_dim), generator)

    def forward(self, x: Tensor) -> Tensor:
        """Map one input for all experts (B, in), or one input per expert (E, B, in), to (E, B, out)."""
        if x.dim() == 2:
            wide = functional.linear(x, self.weight.flatten(0, 1), self.bias.flatten())  # one GEMM for all experts
            return wide.view(-1, *self.bias.shape).transpose(0, 1)
        return torch.matmul(x, self.weight.transpose(1, 2)) + self.bias[:, None]


class ExpertNorm(nn.Module):
    """E layer normalizations that run in parallel, each with its own gain and shift."""

    def __init__(self, experts: int, width: int, generator: Generator) -> None:
        """Start with gain one and shift zero."""
        super().__init__()
        self.gain = nn.Parameter(torch.ones(experts, 1, width, device=generator.device))
        self.shift = nn.Parameter(torch.zeros(experts, 1, width, device=generator.device))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize (E, B, D) over the last axis."""
        return functional.layer_norm(x, x.shape[-1:]) * self.gain + self.shift


class ExpertMlp(nn.Sequential):
    """E perceptrons that run in parallel, with ReLUs between their layers and a linear last layer."""

    def __init__(self, experts: int, widths: Sequence[int], generator: Generator) -> None:
        """Draw the weights of all layers."""
        super().__init__(*[ExpertLinear(experts, in_dim, out_dim, generator) for in_dim, out_dim in pairwise(widths)])

    def forward(self, x: Tensor) -> Tensor:
        """Map inputs (B, in) to outputs (E, B, out)."""
        for index, layer in enumerate(self):
            x = layer(torch.relu(x) if index > 0 else x)
        return x


class TaskLinear(nn.Module):
    """K linear layers, one per task; each row uses the layer of its task.

    One matrix product computes all K outputs, and each row gathers the output of its task. For narrow outputs this
    moves less memory than gathering a weight matrix per row, and its gradient needs no sorting or atomic additions.
    """

    def __init__(self, num_tasks: int, in_dim: int, out_dim: int, generator: Generator, init: Init = uniform) -> None:
        """Draw the weights of every task separately; biases start at zero."""
        super().__init__()
        self.weight = parameter((num_tasks, out_dim, in_dim), generator, init)  # (K, out, in)
        self.bias = parameter((num_tasks, out_dim), generator)
        self.task_axes = {"weight": TaskAxis(0), "bias": TaskAxis(0)}

    def forward(self, x: Tensor, task: Tensor) -> Tensor:
        """Map (B, in) to (B, out) with the weights of each row's task."""
        wide = functional.linear(x, self.weight.flatten(0, 1), self.bias.flatten())
        every = wide.view(-1, *self.bias.shape)  # (B, K, out)
        index = task[:, None, None].expand(-1, 1, every.shape[-1])
        return every.gather(1, index).squeeze(1)
