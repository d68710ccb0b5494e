"""Noise that is correlated in time: by hand, its distribution, and that it resumes."""

from __future__ import annotations

import torch
from torch.testing import assert_close

from polytask.algos.shared.correlated_noise import CorrelatedNoise

TASK = torch.tensor([0, 0, 1])


def test_each_step_keeps_the_share_of_its_task_by_hand() -> None:
    noise = CorrelatedNoise(TASK, 2, 1)
    white = torch.tensor([[1.0], [-2.0], [1.0]])
    assert_close(noise.follow(white), white)  # nothing to keep yet
    noise.correlate(torch.tensor([0.6, 0.0]))
    assert_close(noise.follow(-white), torch.tensor([[0.6 - 0.8], [-1.2 + 1.6], [-1.0]]))
    assert_close(noise.follow(torch.zeros(3, 1)), torch.tensor([[-0.12], [0.24], [0.0]]))


def test_every_step_is_standard_normal_and_neighbours_are_correlated() -> None:
    generator = torch.Generator().manual_seed(0)
    worlds = 20_000
    noise = CorrelatedNoise(torch.zeros(worlds, dtype=torch.int64), 1, 2)
    steps = []
    for step in range(12):
        if step in (1, 6):  # a change of the share does not disturb the distribution
            noise.correlate(torch.tensor([0.9 if step == 1 else 0.3]))
        steps.append(noise.follow(torch.randn(worlds, 2, generator=generator)))
    for each in steps:
        assert_close(each.mean(0), torch.zeros(2), rtol=0, atol=0.03)
        assert_close(each.var(0), torch.ones(2), rtol=0, atol=0.04)
    for first, later, expected in ((2, 3, 0.9), (2, 4, 0.81), (8, 9, 0.3)):
        assert_close((steps[first] * steps[later]).mean(0), torch.full((2,), expected), rtol=0, atol=0.03)


def test_what_was_returned_is_not_overwritten_and_a_saved_state_goes_on_equally() -> None:
    noise, resumed = CorrelatedNoise(TASK, 2, 2), CorrelatedNoise(TASK, 2, 2)
    noise.correlate(torch.tensor([0.5, 0.9]))
    first = noise.follow(torch.ones(3, 2))
    kept = first.clone()
    resumed.load_state_dict(noise.state_dict())
    white = torch.arange(6.0).view(3, 2)
    assert_close(noise.follow(white), resumed.follow(white), rtol=0, atol=0)
    assert_close(first, kept, rtol=0, atol=0)
