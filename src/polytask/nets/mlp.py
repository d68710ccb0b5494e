"""A multi-layer perceptron with the task code in its input, and one output layer for all tasks or one per task.

The multi-head form follows Yu et al., "Meta-World", 2020 (arXiv 1910.10897); sizes follow MTBench's PPO.

Differences from MTBench: heads are one matrix product and a gather instead of a loop over tasks.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Generator, Tensor, nn

from polytask.nets import layers
from polytask.nets.heads import HeadsConfig, make_head
from polytask.nets.layers import WIDTH
from polytask.nets.task_code import TaskCode, TaskCodeConfig
from polytask.settings import setting, with_default


@dataclass
class MlpConfig(TaskCodeConfig, HeadsConfig):
    """Settings of the perceptron."""

    name: str = "mlp"
    hidden: list[int] = setting([256, 128, 64], "widths of the hidden layers", **WIDTH)
    activation: str = setting("elu", "activation of the hidden layers", choices=layers.ACTIVATIONS)


@dataclass
class MultiheadConfig(MlpConfig):
    """A multi-layer perceptron with the task code in its input and one output layer (head) per task."""

    name: str = "multihead"
    heads: str = with_default(MlpConfig, "heads", "multi")


class Mlp(nn.Module):
    """Hidden layers on [x, task code], then a linear head."""

    def __init__(self, cfg: MlpConfig, shape: layers.NetShape, generator: Generator) -> None:
        """Draw the weights."""
        super().__init__()
        self.code = TaskCode.of(cfg, shape.num_tasks, generator)
        widths = [shape.in_dim + self.code.width, *cfg.hidden]
        self.trunk = layers.mlp(widths, cfg.activation, generator)
        self.head = make_head(cfg.heads, widths[-1], shape, generator)
        self.task_axes = self.code.columns("trunk.0.weight", start=shape.in_dim)

    def forward(self, x: Tensor, task: Tensor) -> Tensor:
        """Map inputs (B, O) of tasks (B,) to outputs (B, out)."""
        output: Tensor = self.head(self.trunk(self.code.append(x, task)), task)
        return output
