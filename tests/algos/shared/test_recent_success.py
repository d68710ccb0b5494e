"""Recent success per task, compared with a loop over steps."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from polytask.algos.shared.recent_success import MEMORY, RecentSuccess

TASK = torch.tensor([0, 0, 1])


def test_episodes_that_a_rollout_cuts_count_once_by_hand() -> None:
    recent = RecentSuccess(TASK, 3)
    success = torch.tensor([[0, 0, 1], [1, 0, 0], [0, 0, 0]]).bool()
    done = torch.tensor([[0, 1, 1], [0, 0, 1], [0, 0, 0]]).bool()
    recent.update(success, done)  # world 0 has succeeded but goes on; 1 fails; 2 succeeds, then fails
    assert recent.rate().tolist() == [0.0, 0.5, 0.0]
    nothing = torch.zeros(1, 3, dtype=torch.bool)
    recent.update(nothing, torch.tensor([[True, False, False]]))
    assert recent.rate()[0].item() == pytest.approx(1 / (1 + MEMORY))  # the success and the earlier failure
    recent.update(nothing, torch.tensor([[True, False, False]]))  # its next episode fails
    assert recent.rate()[0].item() == pytest.approx(MEMORY / (1 + MEMORY + MEMORY**2))


def test_only_worlds_that_count_are_counted() -> None:
    recent = RecentSuccess(TASK, 2, torch.tensor([True, False, True]))
    recent.update(torch.tensor([[False, True, True]]), torch.ones(1, 3, dtype=torch.bool))
    assert recent.rate().tolist() == [0.0, 1.0]


def test_agrees_with_a_loop_over_steps_and_resumes() -> None:
    generator = torch.Generator().manual_seed(0)
    recent, resumed = RecentSuccess(TASK, 2), RecentSuccess(TASK, 2)
    reached, counts = [False] * 3, torch.zeros(2, 2)
    for _ in range(6):
        success = torch.rand(7, 3, generator=generator) < 0.2
        done = torch.rand(7, 3, generator=generator) < 0.3
        recent.update(success, done)
        counts *= MEMORY
        for t in range(7):
            for world, task in enumerate(TASK.tolist()):
                reached[world] |= bool(success[t, world])
                if done[t, world]:
                    counts[:, task] += torch.tensor([float(reached[world]), 1.0])
                    reached[world] = False
        assert_close(recent.rate(), counts[0] / counts[1])
        resumed.load_state_dict(recent.state_dict())
        recent, resumed = resumed, RecentSuccess(TASK, 2)


def test_after_a_reset_of_all_worlds_a_success_before_it_does_not_count() -> None:
    recent, nothing = RecentSuccess(TASK, 2), torch.zeros(1, 3, dtype=torch.bool)
    recent.update(torch.tensor([[True, False, False]]), nothing)
    recent.restart()
    recent.update(nothing, torch.tensor([[True, False, False]]))
    assert recent.rate()[0].item() == 0.0
