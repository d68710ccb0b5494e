"""Dense layers from the last map to one logit: one head for all tasks, or one of its own for each."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

from polytask.mtopt.networks.layers import vector_norm

# Most actions fail and a target is at most the best of what is predicted, so predictions start low: from one half, the
# first targets would be gamma / 2 everywhere and would have to be unlearned.
FIRST_PROBABILITY = 0.05
FIRST_LOGIT = math.log(FIRST_PROBABILITY / (1 - FIRST_PROBABILITY))


class SingleHead(nn.Module):
    """Three dense layers that all tasks share."""

    def __init__(self, features: int, dense: tuple[int, int], norm: str) -> None:
        super().__init__()
        first, second = dense
        bias = norm == "none"
        self.layers = nn.Sequential(
            nn.Linear(features, first, bias=bias),
            nn.Identity() if bias else vector_norm(norm, first),
            nn.ReLU(),
            nn.Linear(first, second, bias=bias),
            nn.Identity() if bias else vector_norm(norm, second),
            nn.ReLU(),
        )
        self.out = nn.Linear(second, 1)

    def forward(self, features: Tensor, task: Tensor) -> Tensor:
        """Return logits (B, S) of features (B, S, F); the task has been merged before."""
        del task
        shape = features.shape[:2]
        hidden = self.layers(features.flatten(0, 1))
        # In bfloat16 logits around -3 would come in steps of 1/64, and CEM could not tell its best samples apart.
        with torch.autocast(hidden.device.type, enabled=False):
            return self.out(hidden.float()).view(shape)

    @torch.no_grad()
    def start_low(self) -> None:
        """Let every prediction be the first probability, whatever the input."""
        self.out.weight.mul_(0.1)
        self.out.bias.fill_(FIRST_LOGIT)


class MultiHead(nn.Module):
    """Three dense layers for each task: the paper's ablation, in which no task is merged before."""

    def __init__(self, features: int, dense: tuple[int, int], tasks: int, generator: torch.Generator) -> None:
        super().__init__()
        sizes = (features, *dense, 1)
        self.weights = nn.ParameterList(
            nn.Parameter(torch.randn(tasks, before, after, generator=generator) * math.sqrt(2 / before))
            for before, after in pairwise(sizes)
        )
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(tasks, 1, after)) for after in sizes[1:])

    def forward(self, features: Tensor, task: Tensor) -> Tensor:
        """Return logits (B, S) of features (B, S, F) by the heads of the tasks (B,)."""
        *hidden, last = zip(self.weights, self.biases, strict=True)
        for weight, bias in hidden:
            # One matrix a state serves all its samples, so looking the matrices up is cheap beside multiplying.
            features = torch.baddbmm(bias[task].to(features.dtype), features, weight[task].to(features.dtype)).relu()
        weight, bias = last
        # In full precision, as the single head's: half of it would count logits in steps of 1/64.
        return (features.float() * weight[task].mT).sum(-1) + bias[task].squeeze(-1)

    @torch.no_grad()
    def start_low(self) -> None:
        """Let every prediction be the first probability, whatever the input."""
        self.weights[-1].mul_(0.1)
        self.biases[-1].fill_(FIRST_LOGIT)
