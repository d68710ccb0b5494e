"""Random vectors of episodes: their ranges, and which of the candidates is used."""

from __future__ import annotations

import torch

from polytask.envs.manipulation.sampling import candidates, draw
from polytask.envs.manipulation.task import Separation
from polytask.envs.manipulation.tasks import TASKS


def test_object_and_goal_are_apart_on_the_table() -> None:
    start = TASKS["push"].start
    assert start.separation == Separation(0.15)
    uniform = torch.rand(4000, candidates(start), 6, generator=torch.Generator().manual_seed(0))
    drawn = draw(start, uniform)
    assert (drawn[:, 0:2] - drawn[:, 3:5]).norm(dim=-1).min() >= 0.15
    low, high = torch.tensor(start.low), torch.tensor(start.high)
    first = low + (high - low) * uniform[:, 0]
    is_apart = (first[:, 0:2] - first[:, 3:5]).norm(dim=-1) >= 0.15
    assert 0 < is_apart.sum() < 4000
    assert torch.equal((drawn == first).all(-1), is_apart)  # the first candidate wherever it is valid


def test_without_a_constraint_there_is_one_candidate() -> None:
    start = TASKS["drawer-open"].start
    assert candidates(start) == 1
    uniform = torch.tensor([[[0.0, 0.5, 0.5], [1.0, 1.0, 1.0]], [[0.75, 0.5, 0.5], [1.0, 1.0, 1.0]]])
    torch.testing.assert_close(draw(start, uniform), torch.tensor([[-0.1, 0.9, 0.0], [0.05, 0.9, 0.0]]))
