"""What twin critics predict: targets, losses and joined values, compared with results computed by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from polytask.algos.shared.values import GridConfig, GridValues, ScalarValues

CPU = torch.device("cpu")


def grid(atoms: int = 5, low: float = -2.0, high: float = 2.0, spread: float = math.inf) -> GridConfig:
    """Return the settings of a grid, by default of the five returns -2, -1, 0, 1, 2."""
    return GridConfig(atoms, low, high, spread)


# Two rows. Means of the first critic: 0, 1; of the second: -1, 1.5.
FIRST = torch.tensor([[0.0, 0, 1, 0, 0], [0, 0, 0, 1, 0]])
SECOND = torch.tensor([[0.0, 1, 0, 0, 0], [0, 0, 0, 0.5, 0.5]])
BOTH = torch.stack([FIRST, SECOND]).log()  # (2, 2, 5) logits


def rows(*values: float) -> Tensor:
    return torch.tensor(values)


@pytest.mark.parametrize(("twin", "expected"), [("min", [-1.0, 1.0]), ("mean", [-0.5, 1.25])])
def test_actor_climbs_the_smaller_value_or_the_average(twin: str, expected: list[float]) -> None:
    assert_close(GridValues(grid(), twin, CPU).of(BOTH), torch.tensor(expected))
    assert_close(ScalarValues(twin).of(torch.tensor([[[0.0], [1.0]], [[-1.0], [1.5]]])), torch.tensor(expected))


@pytest.mark.parametrize(
    ("twin", "expected"),
    [
        # Row 0: the second critic's -1 becomes 0.5 + 0.5 * (-1 + 1) = 0.5. Row 1: the first's 1 becomes 0 + 1 + 0.25.
        ("min", [[0.0, 0, 0.5, 0.5, 0], [0, 0, 0, 0.75, 0.25]]),
        # Row 0: 0 becomes 1. Row 1: 2, with a quarter of the mass, becomes 2.25, which is moved to the end of the grid.
        ("mean", [[0.0, 0, 0.25, 0.75, 0], [0, 0, 0, 0.75 * 0.75, 0.75 * 0.25 + 0.25]]),
    ],
)
def test_grid_targets_shift_whole_distributions_by_reward_and_bonus(twin: str, expected: list[list[float]]) -> None:
    values = GridValues(grid(), twin, CPU)
    target = values.targets(BOTH, rows(0.5, 0.0), rows(0.5, 1.0), rows(1.0, 0.25))
    assert_close(target, torch.tensor(expected))
    task_major = values.targets(BOTH, rows(0.5, 0.0).view(2, 1), rows(0.5, 1.0).view(2, 1), rows(1.0, 0.25).view(2, 1))
    assert_close(task_major, target.view(2, 1, 5))


def test_means_of_grid_targets_are_scalar_targets() -> None:
    generator = torch.Generator().manual_seed(0)
    values = GridValues(grid(41, -10.0, 10.0), "mean", CPU)
    logits = 4 * torch.randn(2, 6, 41, generator=generator)
    reward, discount, bonus = (torch.rand(6, generator=generator) for _ in range(3))
    means = logits.softmax(-1) @ values.atoms
    scalar = ScalarValues("mean").targets(means.unsqueeze(-1), reward, 0.5 * discount, bonus)
    assert_close(values.targets(logits, reward, 0.5 * discount, bonus) @ values.atoms, scalar, rtol=1e-4, atol=1e-4)


def test_bonus_is_discounted_and_lost_at_a_termination() -> None:
    for values, output in ((ScalarValues("min"), torch.zeros(2, 2, 1)), (GridValues(grid(), "min", CPU), BOTH)):
        target = values.targets(output, rows(1.0, 1.0), rows(0.0, 0.0), rows(7.0, -7.0))
        mean = target @ values.atoms if isinstance(values, GridValues) else target
        assert_close(mean, rows(1.0, 1.0))


def test_without_a_bonus_targets_are_reward_and_discounted_value() -> None:
    target = ScalarValues("min").targets(torch.tensor([[[2.0]], [[3.0]]]), rows(1.0), rows(0.5))
    assert_close(target, rows(2.0))
    target = GridValues(grid(), "min", CPU).targets(BOTH, rows(1.0, 0.5), rows(0.5, 0.5))
    assert_close(target @ GridValues(grid(), "min", CPU).atoms, rows(0.5, 1.0))  # values -1 and 1


def test_losses_are_summed_over_both_critics() -> None:
    target = torch.tensor([[0.0, 0.5, 0.5, 0, 0], [0, 0, 0, 1.0, 0]])
    uniform = torch.zeros(2, 2, 5)
    assert_close(GridValues(grid(), "min", CPU).losses(uniform, target), 2 * rows(5.0, 5.0).log())
    output = torch.tensor([[[1.0], [0.0]], [[3.0], [2.0]]])
    assert_close(ScalarValues("min").losses(output, rows(0.0, 1.0)), rows(10.0, 2.0))


def test_gradient_of_the_grids_loss_is_prediction_minus_target() -> None:
    logits = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    target = torch.rand(3, 5, generator=torch.Generator().manual_seed(1)).softmax(-1)
    GridValues(grid(), "min", CPU).losses(logits, target).sum().backward()
    assert_close(logits.grad, logits.detach().softmax(-1) - target)


@pytest.mark.parametrize("twin", ["min", "mean"])
def test_gradient_of_the_joined_value_is_its_slope(twin: str) -> None:
    values = GridValues(grid(), twin, CPU)
    values.atoms = values.atoms.double()
    logits = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(values.of, (logits,))


def test_joined_values_keep_float32_inside_bfloat16_regions() -> None:
    values = GridValues(grid(101, -10.0, 10.0), "mean", CPU)
    logits = torch.full((2, 1, 101), -1e9)
    logits[:, :, 97] = 0.0  # the atom 9.4, which bfloat16 rounds to 9.375
    with torch.autocast("cpu", torch.bfloat16):
        value = values.of(logits)
    assert value.dtype == torch.float32
    assert_close(value, rows(9.4))


def test_mass_at_the_ends_is_reported() -> None:
    summary = GridValues(grid(), "min", CPU).summary(torch.tensor([[[0.25, 0.5, 0.25, 0, 0]], [[0, 0, 0, 0.5, 0.5]]]))
    assert_close(summary, {"value/target": torch.tensor(0.25), "value/at_bounds": torch.tensor(0.375)})


def test_rewards_fill_their_share_of_the_grid() -> None:
    assert GridValues(grid(low=-8.0, high=4.0), "min", CPU).bound == 4.0  # a return of 8 would leave the other side
    assert GridValues(grid(low=-8.0, high=4.0), "min", CPU, reward_share=0.5).bound == 2.0
    assert GridValues(grid(low=0.0, high=4.0), "min", CPU).bound == 4.0  # returns of one sign


def test_untrained_critics_predict_returns_of_the_initial_spread() -> None:
    values = GridValues(grid(201, -10.0, 10.0, spread=2.0), "min", CPU)
    silent = torch.zeros(2, 1, 201)
    target = values.targets(silent, rows(0.0), rows(1.0))
    assert_close(target @ values.atoms, rows(0.0), rtol=0, atol=1e-4)
    assert_close((target @ values.atoms.square()).sqrt(), rows(2.0), rtol=1e-3, atol=0)
    assert_close(values.losses(silent, target), -2 * (target * target.log()).sum(-1))  # the loss is least here
    raised = values.of(silent + 0.25 * values.atoms)  # a normal distribution moves by a quarter of its variance
    assert_close(raised, rows(1.0), rtol=1e-3, atol=0)
