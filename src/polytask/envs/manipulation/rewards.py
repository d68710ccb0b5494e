"""Vectorized reward primitives of the manipulation tasks; Meta-World's dense rewards are built from them.

All functions take and return tensors with the environment axis first and never branch on data. Intermediate results are
overwritten in place: with few worlds per task, the number of small operations dominates the time of a CPU step.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_LOG_VALUE_AT_MARGIN = math.log(0.1)  # every sigmoid is 0.1 at one margin from the interval
_TINY = 1e-12


def tolerance(
    x: Tensor, low: float | Tensor, high: float | Tensor, margin: float | Tensor, *, sigmoid: str = "long_tail"
) -> Tensor:
    """Return 1 where low <= x <= high, and a smooth decay to both sides that is 0.1 at `margin` from the interval.

    A margin of zero makes the function a plain indicator. `sigmoid` is "long_tail" or "gaussian".
    """
    outside = torch.maximum(low - x, x - high).clamp_(min=0.0)
    # Inside the interval the scaled distance is 0 and every sigmoid is 1; a zero margin puts all other x far outside.
    square = outside.div_(margin.clamp(min=_TINY) if isinstance(margin, Tensor) else max(margin, _TINY)).square_()
    if sigmoid == "long_tail":
        return square.mul_(9.0).add_(1.0).reciprocal_()
    if sigmoid == "gaussian":
        return square.mul_(_LOG_VALUE_AT_MARGIN).exp_()
    raise ValueError(f"unknown sigmoid '{sigmoid}'; valid: long_tail, gaussian")


def hamacher(a: Tensor, b: Tensor) -> Tensor:
    """Return the Hamacher product of two numbers in [0, 1]: a soft 'and' that is 0 where both are 0."""
    product = a * b
    return product.div_((a + b).sub_(product).clamp_(min=_TINY))


def prism(point: Tensor, zero: Tensor, one: Tensor) -> Tensor:
    """Return 1 outside the box spanned by two corners and, inside, a ramp from corner `zero` (0) to `one` (1)."""
    share = (point - zero) / (one - zero)  # per axis, 0 at the corner `zero` and 1 at `one`
    inside = ((share - 0.5).abs_() <= 0.5).all(-1)
    return torch.where(inside, share.prod(-1), 1.0)
