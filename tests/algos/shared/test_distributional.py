"""The projection of return distributions onto the grid, compared with results computed by hand."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.testing import assert_close

from polytask.algos.shared.distributional import cross_entropy, expectation, project, smooth

ATOMS = torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0])


def rows(*values: list[float]) -> Tensor:
    return torch.tensor(values)


def test_reward_on_the_grid_moves_mass_by_whole_atoms() -> None:
    result = project(rows([0.1, 0.2, 0.4, 0.3, 0.0]), torch.tensor([1.0]), torch.tensor([1.0]), ATOMS)
    assert_close(result, rows([0.0, 0.1, 0.2, 0.4, 0.3]))


def test_reward_between_atoms_is_split_by_nearness() -> None:
    result = project(rows([0.0, 0.0, 1.0, 0.0, 0.0]), torch.tensor([0.25]), torch.tensor([1.0]), ATOMS)
    assert_close(result, rows([0.0, 0.0, 0.75, 0.25, 0.0]))


def test_no_discount_leaves_the_reward_alone() -> None:
    result = project(rows([0.1, 0.2, 0.4, 0.3, 0.0]), torch.tensor([-1.5]), torch.tensor([0.0]), ATOMS)
    assert_close(result, rows([0.5, 0.5, 0.0, 0.0, 0.0]))


def test_discount_draws_values_together() -> None:
    # Values -1, 0, 1 become -0.5, 0, 0.5.
    result = project(rows([0.0, 0.4, 0.2, 0.4, 0.0]), torch.tensor([0.0]), torch.tensor([0.5]), ATOMS)
    assert_close(result, rows([0.0, 0.2, 0.6, 0.2, 0.0]))


def test_mass_beyond_the_ends_is_kept_at_the_ends() -> None:
    result = project(rows([0.0, 0.0, 0.5, 0.25, 0.25]), torch.tensor([1.5]), torch.tensor([1.0]), ATOMS)
    assert_close(result, rows([0.0, 0.0, 0.0, 0.25, 0.75]))
    below = project(rows([0.5, 0.5, 0.0, 0.0, 0.0]), torch.tensor([-100.0]), torch.tensor([0.9]), ATOMS)
    assert_close(below, rows([1.0, 0.0, 0.0, 0.0, 0.0]))


def test_mass_and_mean_survive_on_the_full_grid() -> None:
    generator = torch.Generator().manual_seed(0)
    atoms = torch.linspace(-10, 10, 101)
    probability = torch.rand(64, 101, generator=generator).square().softmax(-1)
    reward, discount = torch.rand(64, generator=generator) - 0.5, 0.9 * torch.rand(64, generator=generator)
    result = project(probability, reward, discount, atoms)
    assert_close(result.sum(-1), torch.ones(64))
    assert_close(result @ atoms, reward + discount * (probability @ atoms), rtol=1e-4, atol=1e-4)


def test_cross_entropy_is_least_at_the_target_and_has_its_gradient_there() -> None:
    target = rows([0.1, 0.2, 0.4, 0.2, 0.1])
    logits = target.log().requires_grad_()
    loss = cross_entropy(logits, target)
    assert_close(loss.detach(), -(target * target.log()).sum(-1))
    loss.sum().backward()
    assert_close(logits.grad, torch.zeros(1, 5), rtol=0, atol=1e-6)
    assert (cross_entropy(rows([0.0, 0.0, 0.0, 0.0, 0.0]), target) > loss).all()


def test_expectation_is_the_mean_over_the_atoms() -> None:
    assert_close(expectation(rows([0.1, 0.1, 0.1, 0.1, 0.6]).log(), ATOMS), torch.tensor([1.0]))


def test_smoothed_values_keep_their_mean_and_stay_on_the_grid() -> None:
    atoms = torch.linspace(-2.0, 2.0, 41)
    value = torch.tensor([[0.0, 0.03, -1.234], [1.5, 7.0, -7.0]])
    mass = smooth(value, atoms)
    assert_close(mass.sum(-1), torch.ones(2, 3))
    assert_close((mass @ atoms)[:, 0], value[:, 0], rtol=0, atol=1e-5)
    assert_close((mass @ atoms)[0], value[0], rtol=0, atol=1e-5)
    spread = (mass[0] @ atoms.square() - (mass[0] @ atoms).square()).sqrt()
    assert_close(spread, torch.full((3,), (0.75**2 + 1 / 12) ** 0.5 * 0.1), rtol=1e-3, atol=0)  # 1/12: of the bins
    assert mass[1, 1:].argmax(-1).tolist() == [40, 0]
