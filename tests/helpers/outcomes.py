"""Outcomes of a toy world: a red or a blue square is lifted, or nothing is; the network that judges them is tiny."""

import torch

from polytask.mtopt.config.learning import DetectorConfig
from polytask.mtopt.config.network import NetworkConfig
from polytask.mtopt.networks.layout import Conv, Layout

SIDE = 16
NAMES = ["lift-any", "lift-red", "lift-blue"]
GREY, RED, BLUE = range(3)
COLOURS = torch.tensor([[90, 90, 90], [220, 40, 40], [40, 40, 220]], dtype=torch.uint8)
TINY = Layout(
    SIDE, (Conv(16, 5, stride=2), Conv(16, 3)), (Conv(16, 3, stride=2),), 32, (32, 32), "group", "none", "channel"
)


def config(**options):
    """Make the settings of a short training."""
    return DetectorConfig(
        "7", NAMES, **{"network": NetworkConfig("tiny"), "updates": 200, "batch": 64, "lr": 3e-3, **options}
    )


def outcomes(count, generator, lifted=None):
    """Draw two views each of a grey room in which nothing, a red or a blue square has been lifted, anywhere."""
    lifted = torch.randint(0, 3, (count,), generator=generator) if lifted is None else lifted
    noise = torch.randint(0, 30, (count, 2, SIDE, SIDE, 3), generator=generator)
    frames = (noise + 75).to(torch.uint8)
    left, top = (torch.randint(0, SIDE - 5, (count,), generator=generator) for _ in range(2))
    cells = torch.arange(SIDE)
    inside = (cells - top[:, None] < 5)[:, :, None] & (cells >= top[:, None])[:, :, None]
    inside = inside & ((cells - left[:, None] < 5) & (cells >= left[:, None]))[:, None, :]
    frames[:, 1] = torch.where(inside[..., None], COLOURS[lifted][:, None, None], frames[:, 1])
    truth = torch.stack((lifted > 0, lifted == RED, lifted == BLUE), 1)
    return frames, truth


def labelled(count, generator):
    """Draw outcomes with one label each, of a random task."""
    frames, truth = outcomes(count, generator)
    task = torch.randint(0, 3, (count,), generator=generator)
    return frames, task, truth[torch.arange(count), task].float()
