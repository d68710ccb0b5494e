"""What pictures of parkour show besides the scene: waypoints that are still to be reached, and the level."""

from __future__ import annotations

import torch

from polytask.envs.domain import Mark
from polytask.envs.parkour.tiles import Tiles

ABOVE = 0.12  # metres from the ground to the centre of a waypoint's ball


def waypoints(tiles: Tiles, tile: int, reached: int) -> list[Mark]:
    """Return the waypoints of a tile that a robot has not reached yet; the first of them is the next one."""
    x, y = tiles.goals[tile].unbind(-1)  # (8,) each
    height = tiles.ground_at(torch.full_like(x, tile, dtype=torch.int64), x, y).clamp_min(0.0) + ABOVE
    places = torch.stack([x, y, height], -1).tolist()
    return [Mark((x, y, z), number == reached) for number, (x, y, z) in enumerate(places) if number >= reached]


def level_note(levels: str, level: int) -> str:
    """Return the level of an episode in words; nothing where all tiles are equally hard."""
    return f"level {level}" if levels in ("hard", "curriculum") else ""
