"""A multi-layer perceptron that sees the task code, with one head or one head per task.

The multi-head form follows Yu et al., "Meta-World", 2020 (arXiv 1910.10897); sizes follow MTBench's PPO.

Differences from MTBench: heads are one matrix product and a gather instead of a loop over tasks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Generator, Tensor, nn

from polytask.nets import layers
from polytask.nets.heads import make_head
from polytask.nets.task_code import TaskCode


@dataclass
class MlpConfig:
    """Settings of the perceptron."""

    hidden: list[int] = field(default_factory=lambda: [256, 128, 64])
    """Widths of the hidden layers."""
    activation: str = "elu"
    """One of elu, relu, gelu, silu, tanh."""
    task_code: str = "onehot"
    """How the input names the task: onehot, embedding or none."""
    embedding_dim: int = 32
    """Width of a learned embedding."""
    heads: str = "single"
    """One output layer (single) or one per task (multi)."""


@dataclass
class MultiheadConfig(MlpConfig):
    """Settings of the perceptron with one head per task."""

    heads: str = "multi"
    """One output layer (single) or one per task (multi)."""


class Mlp(nn.Module):
    """Hidden layers on [x, task code], then a linear head."""

    def __init__(self, cfg: MlpConfig, shape: layers.NetShape, generator: Generator) -> None:
        """Draw the weights."""
        super().__init__()
        self.code = TaskCode(cfg.task_code, shape.num_tasks, cfg.embedding_dim, generator)
        widths = [shape.in_dim + self.code.width, *cfg.hidden]
        self.trunk = layers.mlp(widths, cfg.activation, generator)
        self.head = make_head(cfg.heads, widths[-1], shape, generator)

    def forward(self, x: Tensor, task: Tensor) -> Tensor:
        """Map inputs (B, O) of tasks (B,) to outputs (B, out)."""
        output: Tensor = self.head(self.trunk(self.code.append(x, task)), task)
        return output
