"""Dense layers from the last map to one logit: one head for all tasks, or one head per task."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

from polytask.mtopt.networks.layers import vector_norm

# Most actions fail, and a target is at most the best prediction, so predictions start low. If they started at one half,
# the first targets would be gamma / 2 everywhere, and training would have to unlearn them.
FIRST_PROBABILITY = 0.05
FIRST_LOGIT = math.log(FIRST_PROBABILITY / (1 - FIRST_PROBABILITY))


class DenseHead(nn.Module):
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

    def forward(self, features: Tensor, task: Tensor | None = None) -> Tensor:
        """Return logits (B, S) of features (B, S, F), which include the task already."""
        shape = features.shape[:2]
        hidden = self.layers(features.flatten(0, 1))
        # In bfloat16, logits around -3 have steps of 1/64, which is too coarse to rank CEM's best samples.
        with torch.autocast(hidden.device.type, enabled=False):
            return self.out(hidden.float()).view(shape)

    @torch.no_grad()
    def start_low(self) -> None:
        """Make all first predictions close to `FIRST_PROBABILITY`."""
        self.out.weight.mul_(0.1)
        self.out.bias.fill_(FIRST_LOGIT)


class PerTaskHeads(nn.Module):
    """Three dense layers for each task: the paper's ablation, in which the features do not include the task."""

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
            # All samples of a state use one matrix, so the lookup is cheap compared with the product.
            features = torch.baddbmm(bias[task].to(features.dtype), features, weight[task].to(features.dtype)).relu()
        weight, bias = last
        # In full precision, for the same reason as in `DenseHead`.
        return (features.float() * weight[task].mT).sum(-1) + bias[task].squeeze(-1)

    @torch.no_grad()
    def start_low(self) -> None:
        """Make all first predictions close to `FIRST_PROBABILITY`."""
        self.weights[-1].mul_(0.1)
        self.biases[-1].fill_(FIRST_LOGIT)
