"""Image networks of MT-Opt in three sizes: `paper`, `medium` and `small`."""

from __future__ import annotations

import torch

from polytask.mtopt.config.network import AugmentConfig, CameraConfig, NetworkConfig
from polytask.mtopt.networks.augment import augment
from polytask.mtopt.networks.layout import LAYOUTS, MERGES
from polytask.mtopt.networks.q import QNetwork
from polytask.mtopt.networks.success import DetectorNetwork

__all__ = [
    "LAYOUTS",
    "MERGES",
    "AugmentConfig",
    "CameraConfig",
    "DetectorNetwork",
    "NetworkConfig",
    "QNetwork",
    "augment",
    "build_detector",
    "build_q",
    "seed_zero",
]


def build_q(
    size: str,
    tasks: int,
    heads: str = "single",
    image_size: int | None = None,
    autocast: bool = False,
    generator: torch.Generator | None = None,
) -> QNetwork:
    """Build a Q-network on the CPU.

    Args:
        size: `paper`, `medium` or `small`.
        tasks: How many tasks it tells apart.
        heads: `single`, with the task as an input, or `multi`, with dense layers of its own for each task.
        image_size: Side of the pictures; None takes the size's own. Larger pictures are cropped at their centre.
        autocast: Compute in bfloat16 where that is safe.
        generator: Of the CPU, for the first weights; None draws them from seed 0.
    """
    return QNetwork(NetworkConfig(size, heads, image_size, autocast), tasks, generator or seed_zero())


def build_detector(
    size: str,
    tasks: int,
    views: int,
    image_size: int | None = None,
    autocast: bool = False,
    generator: torch.Generator | None = None,
) -> DetectorNetwork:
    """Build a success detector's network for `views` pictures of each outcome; see `build_q`."""
    config = NetworkConfig(size, image_size=image_size, autocast=autocast)
    return DetectorNetwork(config, tasks, views, generator or seed_zero())


def seed_zero() -> torch.Generator:
    """Make the generator of first weights that nobody asked for."""
    return torch.Generator().manual_seed(0)
