"""How an actor's output becomes an action."""

from __future__ import annotations

import torch
from torch.testing import assert_close

from polytask.algos.shared.actor_layout import clip, squash


def test_means_are_clipped_to_the_range_of_actions() -> None:
    found = clip(torch.tensor([[-3.0, -0.5, 0.5, 1.5]]), 4)
    assert_close(found, torch.tensor([[-1.0, -0.5, 0.5, 1.0]]))


def test_means_are_squashed_and_what_follows_them_is_left_out() -> None:
    found = squash(torch.tensor([[-3.0, 0.5, 7.0, 8.0]]), 2)
    assert_close(found, torch.tensor([[-3.0, 0.5]]).tanh())
