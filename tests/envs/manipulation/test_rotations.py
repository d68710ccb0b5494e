"""Rotation conversions of the observations."""

from __future__ import annotations

import mujoco
import numpy as np
import torch
from torch import Tensor
from torch.testing import assert_close

from polytask.envs.manipulation.rotations import wxyz_to_xyzw
from polytask.sim.geometry import right_product


def _random_wxyz() -> Tensor:
    quaternion = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    return quaternion / torch.linalg.vector_norm(quaternion, dim=-1, keepdim=True)


def test_right_product_is_mujocos_quaternion_product() -> None:
    first, second = _random_wxyz(), _random_wxyz().flip(0)
    for a, b in zip(first[:20], second[:20], strict=True):
        expected = np.zeros(4)
        mujoco.mju_mulQuat(expected, a.double().numpy(), b.double().numpy())
        assert_close(a @ right_product(b), torch.from_numpy(expected).float(), atol=1e-6, rtol=0.0)


def test_the_largest_component_is_positive() -> None:
    xyzw = wxyz_to_xyzw(_random_wxyz())
    assert bool((xyzw.max(-1).values == xyzw.abs().max(-1).values).all())


def test_the_scalar_moves_to_the_back() -> None:
    wxyz = torch.tensor([[0.8, 0.0, 0.6, 0.0], [-0.8, 0.0, 0.6, 0.0]])
    assert_close(wxyz_to_xyzw(wxyz), torch.tensor([[0.0, 0.6, 0.0, 0.8], [0.0, -0.6, 0.0, 0.8]]))
