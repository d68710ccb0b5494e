"""Building blocks of the scripted experts."""

from __future__ import annotations

import torch

from polytask.envs.manipulation.shared.expert import from_above


def test_the_hand_comes_from_above_and_then_moves_on() -> None:
    point, then = torch.tensor([[0.0, 0.6, 0.1]] * 4), torch.tensor([[0.3, 0.6, 0.1]] * 4)
    # Beside and low, above the point, close enough, and just too far to the side.
    hand = torch.tensor([[0.1, 0.6, 0.1], [0.01, 0.6, 0.2], [0.01, 0.6, 0.13], [0.0, 0.63, 0.1]])
    waypoint = from_above(hand, point, slack=(0.02, 0.04), clearance=0.15, then=then)
    above = [0.0, 0.6, 0.25]
    torch.testing.assert_close(waypoint, torch.tensor([above, [0.0, 0.6, 0.1], [0.3, 0.6, 0.1], above]))
