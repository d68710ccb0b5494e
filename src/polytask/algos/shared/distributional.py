"""Distributions of returns over a fixed grid of values (C51: Bellemare et al. 2017, arXiv 1707.06887).

Dimension letters: M atoms, which are the values of the grid.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

SMOOTHING = 0.75  # standard deviation of a smoothed value, in steps of the grid, as in the paper of `smooth`


def expectation(logits: Tensor, atoms: Tensor) -> Tensor:
    """Return the means (...) of distributions over atoms (M,), given their logits (..., M), in float32.

    Under autocast, bfloat16 would round the atoms, and with them the slope that an actor climbs.
    """
    with torch.autocast(logits.device.type, enabled=False):
        return logits.softmax(dim=-1) @ atoms


@torch.no_grad()
def project(probability: Tensor, reward: Tensor, discount: Tensor, atoms: Tensor) -> Tensor:
    """Project the distribution of `reward + discount * value` onto the grid.

    Every mass goes to its two neighbours on the grid, in proportion to nearness. Mass outside the grid moves to the
    nearest end. If there is none, the mean does not change.

    Args:
        probability: Distribution of the value. (..., M)
        reward: (...)
        discount: (...)
        atoms: Evenly spaced, ascending. (M,)
    """
    low, high, steps = atoms[0], atoms[-1], len(atoms) - 1
    shifted = (reward.unsqueeze(-1) + discount.unsqueeze(-1) * atoms).clamp(low, high)  # (..., M)
    position = ((shifted - low) * (steps / (high - low))).clamp(0, steps)  # in steps of the grid
    left = position.floor()
    share = position - left  # of the right neighbour
    left_index = left.long()
    right_index = (left_index + 1).clamp_max(steps)
    projected = torch.zeros_like(probability).scatter_add_(-1, left_index, probability * (1 - share))
    return projected.scatter_add_(-1, right_index, probability * share)


@torch.no_grad()
def smooth(value: Tensor, atoms: Tensor) -> Tensor:
    """Spread single values (...) over the atoms as narrow normals (..., M): HL-Gauss (Farebrother et al. 2024).

    An atom gets the mass of the normal within half a step around it. Values outside the grid count as its nearest end.
    Away from the ends the mean does not change.

    Args:
        value: (...)
        atoms: Evenly spaced, ascending. (M,)
    """
    step = atoms[1] - atoms[0]
    edges = torch.cat([atoms - 0.5 * step, atoms[-1:] + 0.5 * step])  # (M + 1,)
    distance = (edges - value.clamp(atoms[0], atoms[-1]).unsqueeze(-1)) / (math.sqrt(2.0) * SMOOTHING * step)
    mass = torch.erf(distance).diff(dim=-1)
    return mass / mass.sum(dim=-1, keepdim=True)


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Return the cross-entropy (...) of logits (..., M) against target distributions (..., M)."""
    return -(target * logits.log_softmax(dim=-1)).sum(dim=-1)
