"""Fixtures for gradient methods: Jacobians, and functions that build the methods."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from polytask.grads import GRADS, GradMethod, build


def random_jacobian(num_tasks: int, kind: str, seed: int = 0) -> Tensor:
    """Draw task gradients (K, 200) with "even" norms, or with "uneven" norms multiplied by e^N(0, 1)."""
    generator = torch.Generator().manual_seed(seed)
    jacobian = torch.randn(num_tasks, 200, generator=generator, dtype=torch.float64)
    spread = torch.randn(num_tasks, 1, generator=generator, dtype=torch.float64).exp()
    return jacobian * spread if kind == "uneven" else jacobian


@pytest.fixture
def draw() -> Callable[..., Tensor]:
    return random_jacobian


@pytest.fixture(params=[2, 10, 50])
def num_tasks(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture(params=["even", "uneven"])
def jacobian(request: pytest.FixtureRequest, num_tasks: int) -> Tensor:
    return random_jacobian(num_tasks, request.param)


@pytest.fixture
def make() -> Callable[..., GradMethod]:
    def make_method(name: str, num_tasks: int, **settings: float) -> GradMethod:
        config, _ = GRADS[name]
        return build(config(**settings), num_tasks, torch.device("cpu"), torch.Generator().manual_seed(0))

    return make_method


@pytest.fixture
def solve(make: Callable[..., GradMethod]) -> Callable[..., Tensor]:
    """Return a function that computes the weights (K,) of a new method for a Jacobian (K, P)."""

    def solve_once(name: str, jacobian: Tensor, **settings: float) -> Tensor:
        losses = torch.ones(len(jacobian), dtype=jacobian.dtype)
        return make(name, len(jacobian), **settings).weights(losses, jacobian @ jacobian.T)

    return solve_once
