"""Damped least squares on chains small enough to compute by hand."""

from __future__ import annotations

import torch
from torch.testing import assert_close

from polytask.robots.ik import joint_step, solve_positive

DAMPING = 0.05**2


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
