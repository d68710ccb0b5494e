"""Noise that is correlated in time: by hand, its distribution, and the density of whole sequences."""

from __future__ import annotations

import torch
from torch.testing import assert_close

from polytask.algos.shared.correlated_noise import CorrelatedNoise, given_last
from polytask.algos.shared.gaussian import log_prob

TASK = torch.tensor([0, 0, 1])


def test_each_action_keeps_the_share_of_its_task_by_hand() -> None:
    noise = CorrelatedNoise(TASK, 2, 1)
    mean, log_std = torch.tensor([[1.0], [1.0], [1.0]]), torch.tensor([2.0, 2.0, 2.0]).log()[:, None]
    noise.continue_from(torch.tensor([[0.5], [-1.0], [3.0]]))
    for found, expected in zip(noise.next(mean, log_std), (mean, log_std), strict=True):
        assert_close(found, expected)  # no task keeps anything yet
    noise.correlate(torch.tensor([0.6, 0.0]))
    found_mean, found_log_std = noise.next(mean, log_std)
    assert_close(found_mean, torch.tensor([[1.3], [0.4], [1.0]]))
    assert_close(found_log_std.exp(), torch.tensor([[1.6], [1.6], [2.0]]))  # 2 sqrt(1 - 0.36)


def test_every_step_has_the_spread_of_the_policy_and_neighbours_are_correlated() -> None:
    generator = torch.Generator().manual_seed(0)
    worlds = 20_000
    noise = CorrelatedNoise(torch.zeros(worlds, dtype=torch.int64), 1, 2)
    mean, log_std = torch.full((worlds, 2), 0.3), torch.full((worlds, 2), 0.5).log()
    steps = []
    for step in range(12):
        if step in (1, 6):  # a change of the share does not disturb the distribution
            noise.correlate(torch.tensor([0.9 if step == 1 else 0.3]))
        given_mean, given_log_std = noise.next(mean, log_std)
        action = given_mean + given_log_std.exp() * torch.randn(worlds, 2, generator=generator)
        noise.continue_from(action - mean)
        steps.append((action - mean) / 0.5)
    for each in steps:
        assert_close(each.mean(0), torch.zeros(2), rtol=0, atol=0.03)
        assert_close(each.var(0), torch.ones(2), rtol=0, atol=0.04)
    for first, later, expected in ((2, 3, 0.9), (2, 4, 0.81), (8, 9, 0.3)):
        assert_close((steps[first] * steps[later]).mean(0), torch.full((2,), expected), rtol=0, atol=0.03)


def test_the_densities_of_the_steps_multiply_to_that_of_the_sequence() -> None:
    """A sequence of correlated noise is one normal vector with covariance std^2 c^|i - j|."""
    generator = torch.Generator().manual_seed(0)
    mean, action = (torch.randn(4, dtype=torch.float64, generator=generator) for _ in range(2))
    share, std = torch.tensor(0.7, dtype=torch.float64), torch.tensor(0.4, dtype=torch.float64)
    distance = torch.arange(4.0, dtype=torch.float64)
    covariance = std**2 * share ** (distance[:, None] - distance).abs()
    expected = torch.distributions.MultivariateNormal(mean, covariance).log_prob(action)
    found = log_prob(action[:1], mean[:1], std.log()[None])  # the first action has none before it
    for step in range(1, 4):
        excess = (action - mean)[step - 1 : step]
        found += log_prob(action[step : step + 1], *given_last(mean[step : step + 1], std.log()[None], excess, share))
    assert_close(found, expected)


def test_a_saved_share_goes_on() -> None:
    noise, resumed = CorrelatedNoise(TASK, 2, 2), CorrelatedNoise(TASK, 2, 2)
    noise.correlate(torch.tensor([0.5, 0.9]))
    resumed.load_state_dict(noise.state_dict())
    for each in (noise, resumed):
        each.continue_from(torch.arange(6.0).view(3, 2))
    mean, log_std = torch.zeros(3, 2), torch.zeros(3, 2)
    for found, expected in zip(resumed.next(mean, log_std), noise.next(mean, log_std), strict=True):
        assert_close(found, expected, rtol=0, atol=0)
