"""Random states for the Q-network."""

import torch

TASKS = 12


def states(count, size, generator=None):
    """Draw pictures, grippers, heights and tasks."""
    generator = generator or torch.Generator().manual_seed(0)
    image = torch.randint(0, 256, (count, size, size, 3), dtype=torch.uint8, generator=generator)
    closed = torch.randint(0, 2, (count,), generator=generator).float()
    height = torch.rand(count, generator=generator) * 0.3
    task = torch.arange(count) % TASKS
    return image, closed, height, task


def poses(count):
    """Put hands above the right bin."""
    return torch.tensor([0.15, 0.6, 0.1]).expand(count, 3)
