"""The cameras of a batch of worlds, opened when they are first needed."""

from __future__ import annotations

from torch import Tensor

from polytask.sim.base import Batch
from polytask.sim.cameras import Cameras, make_cameras


class CameraSet:
    """Renders by the names of cameras; pictures of one set of names always have the same size."""

    def __init__(self, batch: Batch) -> None:
        """Render worlds; nothing is opened yet."""
        self._batch = batch
        self._open: dict[tuple[str, ...], Cameras] = {}

    def render(self, names: tuple[str, ...], size: tuple[int, int]) -> Tensor:
        """Return the views (N, V, H, W, 3) of cameras, in a buffer that the next call with these names overwrites."""
        if names not in self._open:
            self._open[names] = make_cameras(self._batch, names, size)
        return self._open[names].render()

    def close(self) -> None:
        """Free the cameras' contexts, in the thread that rendered with them."""
        for cameras in self._open.values():
            cameras.close()
        self._open.clear()
