"""Distances and rotations, compared with MuJoCo and with values computed by hand."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from polytask.sim.geometry import (
    distance,
    euler,
    right_product,
    rotate_back,
    rotation_error,
    rotation_matrix,
    wxyz_to_xyzw,
    z_axis,
)

HALF = math.sqrt(0.5)


@pytest.fixture
def quats() -> Tensor:
    """Return random unit quaternions. (200, 4)"""
    quaternion = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    return quaternion / torch.linalg.vector_norm(quaternion, dim=-1, keepdim=True)


def test_distance_is_taken_along_the_last_axis() -> None:
    gap = distance(torch.tensor([[0.0, 3.0, 4.0], [1.0, 1.0, 1.0]]), torch.ones(2, 3))
    assert_close(gap, torch.tensor([math.sqrt(14), 0.0]))


def test_a_weight_multiplies_the_error_of_each_coordinate() -> None:
    gap = distance(torch.tensor([[2.0, 1.0, 1.0]]), torch.tensor([[1.0, 1.0, 3.0]]), torch.tensor([3.0, 5.0, 2.0]))
    assert_close(gap, torch.tensor([5.0]))


def test_right_product_is_mujocos_quaternion_product(quats: Tensor) -> None:
    for a, b in zip(quats[:20], quats.flip(0)[:20], strict=True):
        expected = np.zeros(4)
        mujoco.mju_mulQuat(expected, a.double().numpy(), b.double().numpy())
        assert_close(a @ right_product(b), torch.from_numpy(expected).float(), atol=1e-6, rtol=0.0)


def test_rotation_matrix_is_mujocos(quats: Tensor) -> None:
    expected = np.zeros((len(quats), 9))
    for row, quat in zip(expected, quats, strict=True):
        mujoco.mju_quat2Mat(row, quat.double().numpy())
    assert_close(rotation_matrix(quats), torch.from_numpy(expected).float().view(-1, 3, 3), atol=1e-6, rtol=0.0)


def test_z_axis_is_the_last_column_of_the_rotation_matrix(quats: Tensor) -> None:
    assert torch.equal(z_axis(quats), rotation_matrix(quats)[..., 2])


def test_z_axes_of_quarter_turns() -> None:
    quats = torch.tensor([[1.0, 0, 0, 0], [HALF, HALF, 0, 0], [HALF, 0, HALF, 0], [0.5, 0.5, 0.5, 0.5]])
    assert_close(z_axis(quats), torch.tensor([[0.0, 0, 1], [0, -1, 0], [1, 0, 0], [1, 0, 0]]))


def test_euler_angles_of_single_turns() -> None:
    half = math.sin(0.35), math.cos(0.35)
    quats = torch.tensor([[half[1], *(half[0] if axis == turned else 0.0 for axis in range(3))] for turned in range(3)])
    angles = torch.stack(euler(quats), -1)
    assert_close(angles, 0.7 * torch.eye(3), atol=1e-6, rtol=0)


def test_world_vectors_in_the_frame_of_a_robot_that_faces_left() -> None:
    quat = torch.tensor([[HALF, 0.0, 0.0, HALF]])  # forward is +y
    assert_close(rotate_back(quat, torch.tensor([[0.0, 2.0, 1.0]])), torch.tensor([[2.0, 0.0, 1.0]]))
    assert_close(rotate_back(quat, torch.tensor([[3.0, 0.0, 0.0]])), torch.tensor([[0.0, -3.0, 0.0]]))


def test_rotation_error_points_along_the_turn_to_the_goal() -> None:
    quarter = (HALF, 0.0, 0.0, HALF)  # about z
    error = rotation_error(torch.tensor([[1.0, 0, 0, 0], [-1.0, 0, 0, 0], list(quarter)]), quarter)
    assert_close(error, torch.tensor([[0, 0, math.sqrt(2)], [0, 0, math.sqrt(2)], [0, 0, 0]]))  # 2 sin 45 degrees


def test_rotation_error_of_a_small_turn_is_the_rotation_vector() -> None:
    turn = torch.tensor([0.003, -0.001, 0.002])
    error = rotation_error(torch.cat([torch.ones(1), -turn / 2])[None], (1.0, 0.0, 0.0, 0.0))
    assert_close(error[0], turn, atol=1e-7, rtol=0.0)


def test_the_largest_component_is_positive(quats: Tensor) -> None:
    xyzw = wxyz_to_xyzw(quats)
    assert bool((xyzw.max(-1).values == xyzw.abs().max(-1).values).all())


def test_the_scalar_moves_to_the_back() -> None:
    wxyz = torch.tensor([[0.8, 0.0, 0.6, 0.0], [-0.8, 0.0, 0.6, 0.0]])
    assert_close(wxyz_to_xyzw(wxyz), torch.tensor([[0.0, 0.6, 0.0, 0.8], [0.0, -0.6, 0.0, 0.8]]))
