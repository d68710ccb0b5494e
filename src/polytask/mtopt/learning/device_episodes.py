"""The fields that the buffers need of episodes that are on the device already."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class DeviceEpisodes(Protocol):
    """N padded episodes on one device: `world.EpisodeBatch`, or any record with these fields."""

    @property
    def images(self) -> Tensor:
        """Frames (N, T + 1, H, W, 3) of bytes."""
        ...

    @property
    def closed(self) -> Tensor:
        """Whether the gripper is closed, (N, T + 1)."""
        ...

    @property
    def height(self) -> Tensor:
        """Height (N, T + 1) of the fingertips, m."""
        ...

    @property
    def actions(self) -> Tensor:
        """Actions (N, T, A)."""
        ...

    @property
    def length(self) -> Tensor:
        """Number (N,) of actions that were taken."""
        ...

    @property
    def pose(self) -> Tensor | None:
        """Pose (N, T + 1, 3) of the hand, where it is known."""
        ...
