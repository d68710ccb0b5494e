"""MOORE, a mixture of orthogonal experts: the experts' features are orthonormalized and mixed by task weights.

Hendawy et al., "Multi-Task Reinforcement Learning with Mixture of Orthogonal Experts", ICLR 2024 (arXiv 2311.11385).

Differences from the paper: Gram-Schmidt has an epsilon, so that linearly dependent experts give a short vector instead
of a division by zero. Differences from MTBench: Every expert is drawn with its own fan-in and fan-out, and its biases
start at zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import torch
from torch import Generator, Tensor, nn

from polytask.nets import layers
from polytask.nets.heads import HEAD_KINDS, make_head
from polytask.nets.layers import COUNT, WIDTH
from polytask.nets.task_code import CODES, TaskCode, TaskCodeConfig, rows
from polytask.settings import setting


@dataclass
class MooreConfig(TaskCodeConfig):
    """Settings of the experts and the task encoder."""

    name: str = "moore"
    experts: int = setting(4, "experts E: 4 for MT10, 6 for MT50", **COUNT)
    hidden: list[int] = setting(
        [400, 400, 400],
        "widths of an expert's layers; the last one is linear and gives the features",
        min_length=1,
        **WIDTH,
    )
    task_hidden: int = setting(256, "hidden width of the task encoder", **WIDTH)
    epsilon: float = setting(1e-8, "added to squared lengths before dividing by them", above=0.0)
    task_code: str = setting(
        "onehot", "task code for the mixture weights and for a single head: onehot or embedding", choices=CODES
    )
    heads: str = setting(
        "single",
        "one output layer that also reads the task code (single), or one per task without it (multi)",
        choices=HEAD_KINDS,
    )


def orthonormalize(vectors: Tensor, epsilon: float) -> list[Tensor]:
    """Apply modified Gram-Schmidt over the first axis of (E, B, D), at least in float32 even under autocast.

    Products and sums are written out, because a matrix product would run in half precision or in TF32. Every step acts
    on one (B, D), and the result is not stacked. So a compiler can do all steps, and what follows, in one kernel.
    """
    rest = list(vectors.to(torch.promote_types(vectors.dtype, torch.float32)).unbind(0))
    for index in range(len(rest)):
        square = rest[index].square().sum(-1, keepdim=True)
        unit = rest[index] = rest[index] * torch.rsqrt(square + epsilon)
        for later in range(index + 1, len(rest)):
            overlap = (rest[later] * unit).sum(-1, keepdim=True)
            rest[later] = torch.addcmul(rest[later], unit, overlap, value=-1.0)
    return rest


class Moore(nn.Module):
    """Orthonormal expert features, mixed by the weights of the task, then a tanh and a linear head."""

    def __init__(self, cfg: MooreConfig, shape: layers.NetShape, generator: Generator) -> None:
        """Draw the weights."""
        super().__init__()
        self.epsilon = cfg.epsilon
        self.code = TaskCode.of(cfg, shape.num_tasks, generator)
        widths = [shape.in_dim, *cfg.hidden]
        self.experts = layers.ExpertMlp(cfg.experts, widths, generator)
        self.task_encoder = nn.Sequential(
            layers.linear(self.code.width, cfg.task_hidden, generator, init=layers.xavier, bias=False),
            nn.ReLU(),
            layers.linear(cfg.task_hidden, cfg.experts, generator, init=layers.xavier, bias=False),
        )
        self.head_sees_code = cfg.heads == "single"
        head_in = widths[-1] + self.code.width * self.head_sees_code
        self.head = make_head(cfg.heads, head_in, shape, generator, layers.xavier)
        self.task_axes = self.code.columns("task_encoder.0.weight")
        if self.head_sees_code:
            self.task_axes |= self.code.columns("head.linear.weight", start=widths[-1])

    def features(self, x: Tensor) -> list[Tensor]:
        """Compute the orthonormal features (B, D) of inputs (B, O), one per expert."""
        return orthonormalize(self.experts(x), self.epsilon)

    def forward(self, x: Tensor, task: Tensor) -> Tensor:
        """Map inputs (B, O) of tasks (B,) to outputs (B, out)."""
        weights = rows(self.task_encoder(self.code.table), task).unsqueeze(-1).unbind(1)  # E of (B, 1)
        terms = [weight * feature for weight, feature in zip(weights, self.features(x), strict=True)]
        mixed = torch.tanh(reduce(torch.add, terms))  # (B, D)
        output: Tensor = self.head(self.code.append(mixed, task) if self.head_sees_code else mixed, task)
        return output
