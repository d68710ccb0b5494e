"""Augment training pictures in batches: random crops and photometric noise, as cameras and light vary.

The defaults are those of QT-Opt's open code. Its hue turns by up to a fifth of the colour circle, which makes a red
object yellow. Where colour distinguishes objects, as for a success detector, choose a smaller value.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from polytask.mtopt.config.network import AugmentConfig

# Red, green and blue to brightness and two colour axes (YIQ), in which a turn of the hue is a rotation.
TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.5959, -0.2746, -0.3213], [0.2115, -0.5227, 0.3112]])
# A change of colours is the first of these matrices plus cos(turn) times the second plus sin(turn) times the third.
YIQ_PARTS = tuple(
    np.linalg.inv(TO_YIQ) @ np.array(middle) @ TO_YIQ
    for middle in (
        [[1, 0, 0], [0, 0, 0], [0, 0, 0]],
        [[0, 0, 0], [0, 1, 0], [0, 0, 1]],
        [[0, 0, 0], [0, 0, -1], [0, 1, 0]],
    )
)


def augment(image: Tensor, size: tuple[int, int], config: AugmentConfig, generator: torch.Generator) -> Tensor:
    """Crop pictures (B, H, W, 3) of bytes to (B, *size, 3) at random and change their colours at random."""
    if not config.enabled:
        return image
    return photometric(crop(image, size, config.shift, generator), config, generator)


def crop(image: Tensor, size: tuple[int, int], shift: int, generator: torch.Generator) -> Tensor:
    """Cut a part of this height and width out of each picture (B, H, W, C) at random, up to `shift` past the edge."""
    batch, height, width = image.shape[:3]
    device = image.device

    def lines(extent: int, kept: int) -> Tensor:
        """Draw the rows or columns (B, kept) to keep; those past the edge repeat the last one."""
        reach = extent - kept + 2 * shift + 1
        first = (torch.rand(batch, 1, device=device, generator=generator) * reach).long() - shift
        return (first + torch.arange(kept, device=device)).clamp(0, extent - 1)

    rows, columns = lines(height, size[0]), lines(width, size[1])
    return image[torch.arange(batch, device=device)[:, None, None], rows[:, :, None], columns[:, None, :]]


def photometric(image: Tensor, config: AugmentConfig, generator: torch.Generator) -> Tensor:
    """Change brightness, saturation, hue and contrast of pictures (B, H, W, 3) of bytes, each at random."""

    def draw(reach: float) -> Tensor:
        """Draw one number in [-reach, reach] for each picture: (B, 1, 1)."""
        return (torch.rand(len(image), 1, 1, device=image.device, generator=generator) * 2 - 1) * reach

    turn = draw(config.hue) * 2 * torch.pi
    gain, offset = 1 + draw(config.contrast), draw(config.brightness)
    matrix = colour_matrix(1 + draw(config.saturation), turn)  # (B, 3, 3)
    pixels = image.flatten(1, 2).float() / 255  # (B, HW, 3)
    mean = pixels.mean(1, keepdim=True)
    # Brightness and contrast change every channel by the same amount, so one matrix and one offset do all four.
    changed = torch.baddbmm((1 - gain) * (mean @ matrix) + offset, pixels, gain * matrix)
    return (changed.clamp(0, 1) * 255).round().to(torch.uint8).view(image.shape)


def colour_matrix(saturation: Tensor, turn: Tensor) -> Tensor:
    """Return the matrices (B, 3, 3), for rows of red, green and blue, that scale and turn the colour axes of YIQ."""
    cos, sin = (saturation * turn.cos()).flatten(), (saturation * turn.sin()).flatten()  # (B,)
    still, along, across = (part.T.flatten().tolist() for part in YIQ_PARTS)
    entries = [a + b * cos + c * sin for a, b, c in zip(still, along, across, strict=True)]
    return torch.stack(entries, -1).unflatten(-1, (3, 3))
