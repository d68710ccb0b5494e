"""Rotation conversions of the observations."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from polytask.tasks.rotations import matrix_to_xyzw, wxyz_to_xyzw

HALF = math.sqrt(0.5)


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [
        ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [0, 0, 0, 1]),
        ([[0, -1, 0], [1, 0, 0], [0, 0, 1]], [0, 0, HALF, HALF]),  # a quarter turn about z
        ([[1, 0, 0], [0, -1, 0], [0, 0, -1]], [1, 0, 0, 0]),  # half turns: the trace is negative
        ([[-1, 0, 0], [0, 1, 0], [0, 0, -1]], [0, 1, 0, 0]),
        ([[-1, 0, 0], [0, -1, 0], [0, 0, 1]], [0, 0, 1, 0]),
    ],
)
def test_known_rotations(matrix: list[list[float]], expected: list[float]) -> None:
    quaternion = matrix_to_xyzw(torch.tensor([matrix], dtype=torch.float32))
    assert_close(quaternion, torch.tensor([expected], dtype=torch.float32))


def _random_wxyz() -> Tensor:
    quaternion = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    return quaternion / torch.linalg.vector_norm(quaternion, dim=-1, keepdim=True)


def _matrices(wxyz: Tensor) -> Tensor:
    """Convert with MuJoCo, one at a time."""
    matrices = np.zeros((len(wxyz), 9))
    for matrix, quaternion in zip(matrices, wxyz.double().numpy(), strict=True):
        mujoco.mju_quat2Mat(matrix, quaternion)
    return torch.from_numpy(matrices).float().view(-1, 3, 3)


def test_both_conversions_agree_for_any_rotation() -> None:
    wxyz = _random_wxyz()
    assert_close(matrix_to_xyzw(_matrices(wxyz)), wxyz_to_xyzw(wxyz), atol=1e-5, rtol=0.0)


def test_the_largest_component_is_positive() -> None:
    xyzw = wxyz_to_xyzw(_random_wxyz())
    assert bool((xyzw.max(-1).values == xyzw.abs().max(-1).values).all())


def test_the_scalar_moves_to_the_back() -> None:
    wxyz = torch.tensor([[0.8, 0.0, 0.6, 0.0], [-0.8, 0.0, 0.6, 0.0]])
    assert_close(wxyz_to_xyzw(wxyz), torch.tensor([[0.0, 0.6, 0.0, 0.8], [0.0, -0.6, 0.0, 0.8]]))
