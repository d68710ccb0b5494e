"""The parkour tasks: one module of terrain each, listed here in MTBench's order."""

from __future__ import annotations

from polytask.envs.parkour.tasks import (
    a_frame,
    beam,
    block_climb,
    box_climb,
    dome,
    domed_pads,
    even_gaps,
    flat,
    lipped_dome,
    lipped_ramp,
    narrow_stairs,
    plain_ramp,
    poles,
    round_pads,
    round_stones,
    scattered_stones,
    side_slopes,
    spiral_stairs,
    squeeze,
    uneven_gaps,
    wide_stairs,
)
from polytask.envs.parkour.terrain import NUM_LEVELS, Terrain

TASKS: dict[str, Terrain] = {
    "box-climb": box_climb.TASK,
    "lipped-ramp": lipped_ramp.TASK,
    "lipped-dome": lipped_dome.TASK,
    "plain-ramp": plain_ramp.TASK,
    "a-frame": a_frame.TASK,
    "dome": dome.TASK,
    "even-gaps": even_gaps.TASK,
    "uneven-gaps": uneven_gaps.TASK,
    "round-pads": round_pads.TASK,
    "domed-pads": domed_pads.TASK,
    "side-slopes": side_slopes.TASK,
    "round-stones": round_stones.TASK,
    "scattered-stones": scattered_stones.TASK,
    "wide-stairs": wide_stairs.TASK,
    "narrow-stairs": narrow_stairs.TASK,
    "block-climb": block_climb.TASK,
    "spiral-stairs": spiral_stairs.TASK,
    "squeeze": squeeze.TASK,
    "poles": poles.TASK,
    "beam": beam.TASK,
    "flat": flat.TASK,
}

__all__ = ["NUM_LEVELS", "TASKS", "Terrain"]
