"""BroNet: a residual network with layer normalization after every dense layer.

Nauman et al., "Bigger, Regularized, Optimistic", NeurIPS 2024 (arXiv 2405.16158).

Differences from the paper: This is only the network, without resets, weight decay and optimistic exploration. The
default width is MTBench's 256 (the paper's critic has 512 and two blocks, its actor 256 and one). The task code is part
of the input.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Generator, Tensor, nn

from polytask.nets import layers
from polytask.nets.heads import HeadsConfig, make_head
from polytask.nets.layers import WIDTH
from polytask.nets.task_code import TaskCode, TaskCodeConfig
from polytask.settings import setting


@dataclass
class BroConfig(TaskCodeConfig, HeadsConfig):
    """Settings of the residual network."""

    name: str = "bro"
    hidden: int = setting(256, "width of every layer", **WIDTH)
    blocks: int = setting(2, "residual blocks of two layers each", within=(0, 1_000))


def dense(in_dim: int, out_dim: int, generator: Generator) -> list[nn.Module]:
    """Build a linear layer followed by a layer normalization."""
    return [
        layers.linear(in_dim, out_dim, generator, init=layers.orthogonal),
        nn.LayerNorm(out_dim, device=generator.device),
    ]


class Bro(nn.Module):
    """An input layer, residual blocks h <- h + LN(W2 relu(LN(W1 h))), and a linear head."""

    def __init__(self, cfg: BroConfig, shape: layers.NetShape, generator: Generator) -> None:
        """Draw the weights."""
        super().__init__()
        width = cfg.hidden
        self.code = TaskCode.of(cfg, shape.num_tasks, generator)
        self.input = nn.Sequential(*dense(shape.in_dim + self.code.width, width, generator), nn.ReLU())
        self.blocks = nn.ModuleList(
            [
                nn.Sequential(*dense(width, width, generator), nn.ReLU(), *dense(width, width, generator))
                for _ in range(cfg.blocks)
            ]
        )
        self.head = make_head(cfg.heads, width, shape, generator)
        self.task_axes = self.code.columns("input.0.weight", start=shape.in_dim)

    def forward(self, x: Tensor, task: Tensor) -> Tensor:
        """Map inputs (B, O) of tasks (B,) to outputs (B, out)."""
        features: Tensor = self.input(self.code.append(x, task))
        for block in self.blocks:
            features = features + block(features)
        output: Tensor = self.head(features, task)
        return output
