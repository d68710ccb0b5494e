"""FiLM, feature-wise linear modulation: the task scales and shifts every hidden unit of a shared perceptron.

Perez et al., "FiLM: Visual Reasoning with a General Conditioning Layer", AAAI 2018 (arXiv 1709.07871); used for
multi-task control as a baseline by Sodhani et al. 2021 (arXiv 2102.06177), whose trunk width is the default here.

Differences from the paper: Perceptron layers replace convolutions. The modulation comes before the activation, without
batch normalization. The generator is one linear map of the task code that starts at zero (identity modulation).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Generator, Tensor, nn

from polytask.nets import layers
from polytask.nets.heads import HeadsConfig, make_head
from polytask.nets.layers import WIDTH
from polytask.nets.task_code import CODES, TaskCode, TaskCodeConfig, rows
from polytask.settings import setting


@dataclass
class FilmConfig(TaskCodeConfig, HeadsConfig):
    """Settings of the modulated perceptron."""

    name: str = "film"
    hidden: list[int] = setting(
        [400, 400, 400], "widths of the hidden layers; all of them are modulated", min_length=1, **WIDTH
    )
    activation: str = setting("relu", "activation of the hidden layers", choices=layers.ACTIVATIONS)
    task_code: str = setting(
        "onehot", "task code that the modulation is computed from: onehot or embedding", choices=CODES
    )


class Film(nn.Module):
    """Hidden layers h <- act((1 + gamma) * (W h + b) + beta), where gamma and beta depend only on the task."""

    def __init__(self, cfg: FilmConfig, shape: layers.NetShape, generator: Generator) -> None:
        """Draw the weights; the modulation starts as the identity."""
        super().__init__()
        self.hidden = list(cfg.hidden)
        self.code = TaskCode.of(cfg, shape.num_tasks, generator)
        widths = [shape.in_dim, *cfg.hidden]
        pairs = pairwise(widths)
        self.linears = nn.ModuleList([layers.linear(i, o, generator, init=layers.xavier) for i, o in pairs])
        self.activation = layers.ACTIVATIONS[cfg.activation]()
        self.modulation = layers.parameter((2 * sum(cfg.hidden), self.code.width), generator)
        self.head = make_head(cfg.heads, widths[-1], shape, generator, layers.xavier)
        self.task_axes = self.code.columns("modulation")

    def forward(self, x: Tensor, task: Tensor) -> Tensor:
        """Map inputs (B, O) of tasks (B,) to outputs (B, out)."""
        table = torch.matmul(self.code.table, self.modulation.t())  # (K, 2 * sum of widths)
        gamma, beta = rows(table, task).chunk(2, dim=-1)
        scales, shifts = torch.split(gamma, self.hidden, dim=-1), torch.split(beta, self.hidden, dim=-1)
        for layer, scale, shift in zip(self.linears, scales, shifts, strict=True):
            x = self.activation((1.0 + scale) * layer(x) + shift)
        output: Tensor = self.head(x, task)
        return output
