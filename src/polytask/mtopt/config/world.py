"""Settings of the simulated bins and of the scripted policies."""

from __future__ import annotations

from dataclasses import dataclass, field

from polytask.errors import UserError
from polytask.settings import setting
from polytask.sim.config import WarpSettings


@dataclass
class WorldConfig:
    """Settings of a batch of bins."""

    num_envs: int = setting(32, "worlds that run at once")
    sim: str = setting("cpu", "physics backend: cpu or warp", choices=("cpu", "warp"))
    device: str = setting("cpu", "torch device of the worlds; cuda needs sim=warp")
    image_size: int = setting(64, "side of the pictures that the policy sees, pixels")
    outcome_size: int = setting(96, "side of the pictures that the success detector sees, pixels")
    assisted: bool = setting(False, "closing or opening ends the episode, and the hand descends by itself")
    reach: float = setting(0.06, "how far an action moves the hand along each axis, at most, m")
    lid: bool = setting(False, "a lid in the scene and an object on the plate, for cover-object")
    spread: float = setting(0.03, "largest offset of the hand's start from the bin's centre along x and y, m")
    segments: int = setting(4, "parts of an action; the arm's targets are corrected before each")
    substeps: int = setting(10, "time steps of a part")
    settle_segments: int = setting(8, "parts in which dropped objects come to rest")
    seed: int = setting(0, "seed of the scenes; a run sets its own")
    # The defaults suffice: no world has needed more than 41 contacts and 167 constraints.
    slots: WarpSettings = field(default_factory=WarpSettings, metadata={"about": "settings of the warp backend"})


@dataclass
class ScriptConfig:
    """Settings of how often and how far a scripted policy errs."""

    noise: float = setting(0.1, "standard deviation of each motion entry, as a part of its range")
    early_end: float = setting(0.02, "chance that an action ends the episode too early")
    early_grip: float = setting(
        0.03, "chance that an action closes at the wrong time, and that it opens at the wrong time"
    )
    detour: float = setting(
        0.0, "chance that an action before the grip goes to a random place; useful with assisted grasps"
    )
    margin: float = setting(0.025, "distance that targets keep from a bin's walls, m")
    seed: int = setting(0, "seed of the script; a run sets its own")

    def __post_init__(self) -> None:
        """Refuse chances that add up to more than one."""
        if min(self.early_grip, self.early_end) < 0 or 2 * self.early_grip + self.early_end > 1:
            raise UserError(
                f"early_grip={self.early_grip}, early_end={self.early_end}: both must be at least 0, and "
                "2 * early_grip + early_end at most 1"
            )
