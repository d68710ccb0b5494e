"""A separate multi-layer perceptron for every task: single-task learning of many tasks in one run.

Tasks share no weights, so no task can help or harm another. This is the reference for multi-task networks.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from torch import Generator, Tensor, nn

from polytask.nets import layers
from polytask.nets.layers import WIDTH
from polytask.settings import setting


@dataclass
class IndependentConfig:
    """Settings of every task's perceptron."""

    name: str = "independent"
    hidden: list[int] = setting([128, 128], "widths of the hidden layers", **WIDTH)
    activation: str = setting("elu", "activation of the hidden layers", choices=layers.ACTIVATIONS)


class Independent(nn.Module):
    """K perceptrons, one per task; each row passes through the one of its task."""

    def __init__(self, cfg: IndependentConfig, shape: layers.NetShape, generator: Generator) -> None:
        """Draw the weights of every task separately."""
        super().__init__()
        widths = [shape.in_dim, *cfg.hidden, shape.out_dim]
        self.layers = nn.ModuleList(layers.TaskLinear(shape.num_tasks, i, o, generator) for i, o in pairwise(widths))
        self.activation = layers.ACTIVATIONS[cfg.activation]()

    def forward(self, x: Tensor, task: Tensor) -> Tensor:
        """Map inputs (B, O) of tasks (B,) to outputs (B, out)."""
        *hidden, last = self.layers
        for layer in hidden:
            x = self.activation(layer(x, task))
        output: Tensor = last(x, task)
        return output
