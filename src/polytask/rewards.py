"""Vectorised reward primitives shared by the manipulation tasks (Meta-World's dense rewards are made of these).

All functions take and return tensors with the environment axis first and draw no conclusions on the host.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_LOG_VALUE_AT_MARGIN = math.log(0.1)  # every sigmoid is worth 0.1 at one margin from the interval


def distance(a: Tensor, b: Tensor) -> Tensor:
    """Return the Euclidean distance along the last axis."""
    return torch.linalg.vector_norm(a - b, dim=-1)


def tolerance(
    x: Tensor, low: float | Tensor, high: float | Tensor, margin: float | Tensor, *, sigmoid: str = "long_tail"
) -> Tensor:
    """Return 1 where low <= x <= high and a smooth decay to both sides, worth 0.1 at `margin` from the interval.

    A margin of zero makes the function a plain indicator. `sigmoid` is "long_tail" or "gaussian".
    """
    outside = torch.maximum(low - x, x - high)
    if isinstance(margin, Tensor):
        # Where the margin is zero the decay must be zero as well: divide by one and mask.
        has_margin = margin > 0
        scaled = outside / torch.where(has_margin, margin, torch.ones_like(margin))
    else:
        has_margin = torch.as_tensor(margin > 0, device=x.device)
        scaled = outside / margin if margin > 0 else outside
    if sigmoid == "long_tail":
        decay = 1.0 / (1.0 + 9.0 * scaled.square())
    elif sigmoid == "gaussian":
        decay = torch.exp(_LOG_VALUE_AT_MARGIN * scaled.square())
    else:
        raise ValueError(f"unknown sigmoid '{sigmoid}'; valid: long_tail, gaussian")
    return torch.where(outside <= 0, torch.ones_like(decay), decay * has_margin)


def hamacher(a: Tensor, b: Tensor) -> Tensor:
    """Return the Hamacher product of two numbers in [0, 1]: a soft 'and' that is 0 where both are 0."""
    denominator = a + b - a * b
    return a * b / torch.where(denominator > 0, denominator, torch.ones_like(denominator))


def prism(point: Tensor, zero: Tensor, one: Tensor) -> Tensor:
    """Return 1 outside the box spanned by two corners and, inside, a ramp from corner `zero` (0) to `one` (1)."""
    low, high = torch.minimum(zero, one), torch.maximum(zero, one)
    inside = ((point >= low) & (point <= high)).all(-1)
    ramp = ((point - zero) / (one - zero)).prod(-1)
    return torch.where(inside, ramp, torch.ones_like(ramp))
