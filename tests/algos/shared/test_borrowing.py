"""As which tasks worlds act: never more than their share, only while a task fails, and only as tasks that succeed."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from polytask.algos.shared.borrowing import Borrowing, lent_worlds
from polytask.errors import UserError


def borrowing(counts: tuple[int, ...], share: float) -> Borrowing:
    return Borrowing(torch.arange(len(counts)).repeat_interleave(torch.tensor(counts)), counts, share)


@pytest.mark.parametrize(
    ("count", "share", "lent"), [(4, 0.5, 2), (5, 0.5, 2), (1, 0.9, 0), (2, 0.9, 1), (10, 0.9, 9), (100, 0.29, 29)]
)
def test_every_task_keeps_a_world(count: int, share: float, lent: int) -> None:
    assert lent_worlds(count, share) == lent < count


def test_the_last_worlds_of_each_task_are_lent() -> None:
    assert borrowing((3, 1, 4), 0.5).always.int().tolist() == [1, 1, 0, 1, 1, 1, 0, 0]


@pytest.mark.parametrize(
    ("counts", "share", "line"),
    [
        ((8,), 0.5, r"algo\.borrow_share does not apply: there is no other task"),
        (
            (3, 2),
            0.3,
            r"algo\.borrow_share=0\.3 lends less than one world of each task, got \(3, 2\); give more worlds",
        ),
    ],
)
def test_a_share_that_lends_nothing_is_refused(counts: tuple[int, ...], share: float, line: str) -> None:
    with pytest.raises(UserError, match=line):
        borrowing(counts, share)


def test_before_the_first_rollout_every_world_acts_as_its_own_task() -> None:
    found = borrowing((3, 2), 0.5)
    assert found.task.tolist() == [0, 0, 0, 1, 1] and found.counted.all()


def test_a_task_that_fails_borrows_from_others_as_often_as_they_succeed() -> None:
    found = borrowing((40_000, 40_000, 40_000), 0.5)
    success, addresses = torch.tensor([0.2, 1.0, 0.5]), (found.task.data_ptr(), found.counted.data_ptr())
    found.draw(success, torch.Generator().manual_seed(0))
    acting = found.task.view(3, 2, 20_000)  # (task, kept or lent, world)
    own = torch.arange(3).view(3, 1)
    assert (acting[:, 0] == own).all()
    share = torch.stack([(acting[:, 1] == other).float().mean(dim=-1) for other in range(3)], dim=1)
    borrowed = (1 - success).unsqueeze(1) * success / 3  # chosen by one of three draws, then with its success
    expected = borrowed.fill_diagonal_(0) + torch.diag(1 - borrowed.sum(dim=1))
    assert_close(share, expected, atol=0.01, rtol=0.0)
    assert (found.counted.view(3, -1) == (found.task.view(3, -1) == own)).all()
    assert (found.task.data_ptr(), found.counted.data_ptr()) == addresses  # captured graphs read them


@pytest.mark.parametrize("success", [[0.0, 0.0], [1.0, 1.0]])
def test_nothing_is_borrowed_where_nothing_or_everything_succeeds(success: list[float]) -> None:
    found = borrowing((50, 50), 0.9)
    found.draw(torch.tensor(success), torch.Generator().manual_seed(0))
    assert found.counted.all()
