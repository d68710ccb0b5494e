"""Settings of the simulated bins and of the scripts that first act in them."""

from __future__ import annotations

from dataclasses import dataclass, field

from polytask.errors import UserError
from polytask.settings import setting
from polytask.sim.config import SimConfig


@dataclass
class WorldConfig:
    """Settings of a batch of bins."""

    num_envs: int = setting(32, "worlds that run at once")
    sim: str = setting("cpu", "physics backend: cpu or warp", choices=("cpu", "warp"))
    device: str = setting("cpu", "torch device of the worlds; cuda needs sim=warp")
    image_size: int = setting(64, "side of the pictures that the policy sees, pixels")
    outcome_size: int = setting(96, "side of the pictures that the success detector sees, pixels")
    assisted: bool = setting(False, "closing or opening ends the episode, and the hand goes down by itself")
    reach: float = setting(0.06, "how far an action moves the hand along each axis, at most, m")
    lid: bool = setting(False, "a lid in the scene and an object on the plate, for cover-object")
    spread: float = setting(0.03, "how far from above the bin's middle the hand may start along x and y, m")
    segments: int = setting(4, "parts of an action, between which the arm's targets are corrected")
    substeps: int = setting(10, "time steps of a part")
    settle_segments: int = setting(8, "parts in which dropped objects come to rest")
    seed: int = setting(0, "seed of the scenes; a run sets its own")
    # At most 41 contacts and 167 constraints were seen.
    slots: SimConfig = field(default_factory=SimConfig, metadata={"about": "settings of the warp backend"})


@dataclass
class ScriptConfig:
    """How a scripted policy errs."""

    noise: float = setting(0.1, "standard deviation of each motion entry, as a part of its range")
    early_end: float = setting(0.02, "chance that an action ends the episode out of turn")
    early_grip: float = setting(0.03, "chance that an action closes out of turn, and that it opens out of turn")
    detour: float = setting(0.0, "chance that an action before the grip goes anywhere; useful with assisted grasps")
    margin: float = setting(0.025, "distance that targets keep from a bin's walls, m")
    seed: int = setting(0, "seed of the script; a run sets its own")

    def __post_init__(self) -> None:
        """Refuse chances that leave none for the command whose turn it is."""
        if min(self.early_grip, self.early_end) < 0 or 2 * self.early_grip + self.early_end > 1:
            raise UserError(
                f"early_grip={self.early_grip}, early_end={self.early_end}: neither may be below 0, and twice the "
                "first plus the second may be at most 1"
            )
