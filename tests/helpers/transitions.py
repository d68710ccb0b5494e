"""Transitions of random pictures."""

import torch

from polytask.mtopt.learning.transitions import Transitions


def transitions(rows=4, **changes):
    """Make transitions that all end their episodes, the first two with success."""
    success = torch.arange(rows) < 2
    values = {
        "image": torch.randint(0, 255, (rows, 16, 16, 3), dtype=torch.uint8),
        "closed": torch.zeros(rows),
        "height": torch.full((rows,), 0.1),
        "action": torch.zeros(rows, 8),
        "next_image": torch.zeros(rows, 16, 16, 3, dtype=torch.uint8),
        "next_closed": torch.zeros(rows),
        "next_height": torch.zeros(rows),
        "reward": success.float(),
        "done": torch.ones(rows, dtype=torch.bool),
        "task": torch.arange(rows) % 3,
        "success": success,
        "remaining": torch.zeros(rows, dtype=torch.int64),
        "pose": torch.zeros(rows, 3),
        "next_pose": torch.zeros(rows, 3),
        "policy": torch.arange(rows),
    }
    return Transitions(**{**values, **changes})
