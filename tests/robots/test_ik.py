"""Damped least squares on chains small enough to compute by hand."""

from __future__ import annotations

import math

import torch
from torch.testing import assert_close

from polytask.robots.ik import hinge_axes, joint_step, rotation_error, solve_positive

HALF = math.sqrt(0.5)
DAMPING = 0.05**2


def test_hinge_axes_are_the_frames_z_axes() -> None:
    quats = torch.tensor([[1.0, 0, 0, 0], [HALF, HALF, 0, 0], [HALF, 0, HALF, 0], [0.5, 0.5, 0.5, 0.5]])
    assert_close(hinge_axes(quats), torch.tensor([[0.0, 0, 1], [0, -1, 0], [1, 0, 0], [1, 0, 0]]))


def test_rotation_error_points_along_the_turn_to_the_goal() -> None:
    quarter = (HALF, 0.0, 0.0, HALF)  # about z
    error = rotation_error(torch.tensor([[1.0, 0, 0, 0], [-1.0, 0, 0, 0], list(quarter)]), quarter)
    assert_close(error, torch.tensor([[0, 0, math.sqrt(2)], [0, 0, math.sqrt(2)], [0, 0, 0]]))  # 2 sin 45 degrees


def test_rotation_error_of_a_small_turn_is_the_rotation_vector() -> None:
    turn = torch.tensor([0.003, -0.001, 0.002])
    error = rotation_error(torch.cat([torch.ones(1), -turn / 2])[None], (1.0, 0.0, 0.0, 0.0))
    assert_close(error[0], turn, atol=1e-7, rtol=0.0)


def test_one_hinge_turns_by_the_damped_quotient() -> None:
    """A hinge about z moves the point (1, 0, 0) along y: J = (0, 1, 0, 0, 0, 1), and J J^T has the eigenvalue 2."""
    step = joint_step(
        axes=torch.tensor([[[0.0, 0, 1]]]),
        arms=torch.tensor([[[1.0, 0, 0]]]),
        error=torch.tensor([[0.0, 0.1, 0, 0, 0, 0.1]]),
        drift=torch.zeros(1, 1),
    )
    assert_close(step, torch.tensor([[0.2 / (2 + DAMPING)]]))


def test_drift_survives_where_the_pose_does_not_feel_it() -> None:
    """Opposite turns of two hinges with one axis cancel; equal turns are suppressed as far as damping allows."""
    axes, arms = torch.tensor([[[0.0, 0, 1]] * 2] * 2), torch.tensor([[[1.0, 0, 0]] * 2] * 2)
    drift = torch.tensor([[0.3, -0.3], [0.3, 0.3]])
    step = joint_step(axes, arms, torch.zeros(2, 6), drift)
    assert_close(step[0], drift[0])
    assert_close(step[1], drift[1] * DAMPING / (4 + DAMPING), atol=1e-6, rtol=0.0)


def test_solver() -> None:
    matrix = torch.tensor([[[2.0, 1.0], [1.0, 2.0]], [[4.0, 0.0], [0.0, 0.5]]])
    assert_close(solve_positive(matrix, torch.tensor([[3.0, 3.0], [2.0, 2.0]])), torch.tensor([[1.0, 1.0], [0.5, 4.0]]))


def test_solver_on_ill_conditioned_systems() -> None:
    generator = torch.Generator().manual_seed(0)
    half = torch.randn(100, 6, 6, generator=generator) * torch.logspace(0, -2, 6)
    matrix, expected = half @ half.mT + DAMPING * torch.eye(6), torch.randn(100, 6, generator=generator)
    vector = (matrix @ expected[:, :, None])[:, :, 0]
    assert_close(solve_positive(matrix, vector), expected, atol=0.01, rtol=0.0)
