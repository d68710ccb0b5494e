"""All tiles that the worlds of an environment can use, stacked into tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import max_pool2d

from polytask.envs.parkour.course import CELL, RASTER, WIDTH
from polytask.envs.parkour.tasks import NUM_LEVELS, TASKS, Terrain
from polytask.sim.base import Shapes

SCAN_X, SCAN_Y = range(-3, 9), range(-5, 6)  # points of the scan in front of the robot and to its left, in spacings
SCAN = len(SCAN_X) * len(SCAN_Y)
CLIFF = 0.075  # metres between neighbouring cells above which the original makes a vertical wall
HELD_OUT = 1_000  # number of the first random variant that no training uses
_CELLS = (RASTER[0] - 1, RASTER[1] - 1)


@dataclass(frozen=True)
class Tiles:
    """M tiles, ten of each task: the tile of task k and level l has index 10 k + l."""

    shapes: Shapes  # (M, G, ...)
    goals: Tensor  # (M, 8, 2)
    ground: Tensor  # (M, cells) height of each cell of the raster
    offsets: Tensor  # (132, 2) positions of the height scan's points in the robot's heading frame

    @classmethod
    def build(
        cls,
        terrains: Sequence[Terrain],
        levels: str,
        device: torch.device,
        *,
        held_out: bool = False,
        spacing: float = 0.15,
    ) -> Tiles:
        """Build every tile that the worlds of these tasks can use.

        Args:
            terrains: The tasks.
            levels: The levels, a key of `suites.LEVELS`.
            device: Device of the tensors.
            held_out: Build other tiles of the same difficulties.
            spacing: Metres between the points of the height scan.
        """
        first = HELD_OUT if held_out else 0
        hardest = NUM_LEVELS - 1 if levels in ("hard", "curriculum") else 0
        chosen = [TASKS["flat"] if levels == "flat" else terrain for terrain in terrains]
        shares = [min(level, hardest) / (NUM_LEVELS - 1) for level in range(NUM_LEVELS)]
        tiles = [terrain.tile(first + level, share) for terrain in chosen for level, share in enumerate(shares)]

        def stack(name: str) -> Tensor:
            return torch.from_numpy(np.stack([getattr(tile, name) for tile in tiles])).to(device)

        height = stack("height")
        # The scan uses the lowest of a point and its next neighbours along x and y. With the minimum computed here, one
        # look-up per point is enough.
        corners = (height[:, :-1, :-1], height[:, 1:, :-1], height[:, :-1, 1:])
        ground = torch.minimum(torch.minimum(corners[0], corners[1]), corners[2]).flatten(1)
        ahead, left = (torch.tensor([round(spacing * index, 6) for index in points]) for points in (SCAN_X, SCAN_Y))
        offsets = torch.cartesian_prod(ahead, left).to(device)
        return cls(Shapes(stack("pos"), stack("quat"), stack("size")), stack("goals"), ground, offsets)

    def layout(self, tile: Tensor) -> Shapes:
        """Return the shapes of the tiles with these indices (N,)."""
        s = self.shapes
        return Shapes(s.pos[tile], s.quat[tile], s.size[tile])

    def goal(self, tile: Tensor, index: Tensor) -> Tensor:
        """Return waypoints (N, 2) by index (N,); an index after the last waypoint gives the last one."""
        return self.goals[tile, index.clamp_max(self.goals.shape[1] - 1)]

    def scan(self, tile: Tensor, position: Tensor, yaw: Tensor) -> Tensor:
        """Return the height of the ground at the scan's points around the robots. (N, 132)"""
        cosine, sine = torch.cos(yaw)[:, None], torch.sin(yaw)[:, None]
        x = position[:, :1] + cosine * self.offsets[:, 0] - sine * self.offsets[:, 1]
        y = position[:, 1:2] + sine * self.offsets[:, 0] + cosine * self.offsets[:, 1]
        return self.ground_at(tile[:, None], x, y)

    def ground_at(self, tile: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Return the height of the ground at points of tiles; beyond the wall of a tile, that of the wall."""
        return self.ground[tile, cell_at(x, y)]

    def edges(self) -> Tensor:
        """Return which cells are within one cell of a cliff, on its upper side. (M, cells) bool"""
        height = self.ground.view(-1, 1, *_CELLS)
        lowest = -max_pool2d(-height, 3, stride=1, padding=1)
        return (height - lowest > CLIFF).flatten(1)


def cell_at(x: Tensor, y: Tensor) -> Tensor:
    """Return the index of the raster's cell at points of a tile."""
    column = (x / CELL).long().clamp(0, _CELLS[0] - 1)
    row = ((y + WIDTH / 2) / CELL).long().clamp(0, _CELLS[1] - 1)
    return column * _CELLS[1] + row
