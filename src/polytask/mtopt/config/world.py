"""Settings of the worlds and of the scripted policies."""

from __future__ import annotations

from dataclasses import dataclass, field

from polytask.errors import UserError
from polytask.mtopt.config.world_specs import BINS, world_spec
from polytask.settings import MAX_SEED, setting
from polytask.sim.config import WarpSettings


@dataclass
class WorldConfig:
    """Settings of a batch of worlds. Those that name bins, objects, plate or lid are the bins'; others ignore them."""

    # Not first: programs give the number of worlds by position.
    num_envs: int = setting(32, "worlds that run at once", within=(1, 10**6))
    sim: str = setting("cpu", "physics backend: cpu or warp", choices=("cpu", "warp"))
    device: str = setting("cpu", "torch device of the worlds; cuda needs sim=warp")
    image_size: int = setting(64, "height of the pictures that the policy sees, pixels", within=(8, 1_024))
    image_width: int | None = setting(
        None, "width of these pictures, pixels (default: as the world declares it)", within=(8, 4_096)
    )
    outcome_size: int = setting(96, "height of the pictures that the success detector sees, pixels", within=(8, 1_024))
    outcome_width: int | None = setting(
        None, "width of these pictures, pixels (default: as the world declares it)", within=(8, 4_096)
    )
    assisted: bool = setting(False, "closing or opening ends the episode, and the hand descends by itself")
    reach: float = setting(0.06, "how far an action moves the hand along each axis, at most, m", above=0.0, at_most=1.0)
    lid: bool = setting(False, "a lid in the scene; a run that learns cover-object has one")
    spread: float = setting(
        0.03, "largest offset of a pick's start from the bin's centre along x and y, m", within=(0.0, 0.14)
    )
    plate_spread: float = setting(
        0.105,
        "largest offset of a place's start from the plate's centre along x and y, m; the plate's radius is 0.105",
        within=(0.0, 0.14),
    )
    segments: int = setting(4, "parts of an action; the arm's targets are corrected before each", within=(1, 1_000))
    substeps: int = setting(10, "time steps of a part", within=(1, 1_000))
    settle_segments: int = setting(8, "parts in which dropped objects come to rest", within=(0, 1_000))
    seed: int = setting(0, "seed of the scenes; a run sets its own", within=(0, MAX_SEED))
    kind: str = setting(BINS.name, "kind of world: bins, drawer, robot (imported episodes), or a plug-in's")
    # The defaults suffice: no world has needed more than 41 contacts and 167 constraints.
    slots: WarpSettings = field(default_factory=WarpSettings, metadata={"about": "settings of the warp backend"})

    def check_together(self, prefix: str = "") -> None:
        """Check that the world exists.

        Raises:
            UserError: If it does not.
        """
        world_spec(self.kind)

    @property
    def image_shape(self) -> tuple[int, int]:
        """Return the height and width of the pictures that the policy sees."""
        return self.image_size, self.image_width or self.image_size

    @property
    def outcome_shape(self) -> tuple[int, int]:
        """Return the height and width of the pictures that the success detector sees."""
        return self.outcome_size, self.outcome_width or self.outcome_size


@dataclass
class ScriptConfig:
    """Settings of how often and how far a scripted policy errs."""

    noise: float = setting(0.1, "standard deviation of each motion entry, as a part of its range", at_least=0.0)
    early_end: float = setting(0.02, "chance that an action ends the episode too early", within=(0.0, 1.0))
    early_grip: float = setting(
        0.03, "chance that an action closes at the wrong time, and that it opens at the wrong time", within=(0.0, 0.5)
    )
    detour: float = setting(
        0.0,
        "chance that an action before the grip goes to a random place; useful with assisted grasps",
        within=(0.0, 1.0),
    )
    margin: float = setting(0.025, "distance that targets keep from a bin's walls, m", at_least=0.0, below=0.14)
    seed: int = setting(0, "seed of the script; a run sets its own", within=(0, MAX_SEED))

    def check_together(self, prefix: str = "") -> None:
        """Check that the chances of errors add up to at most one.

        Raises:
            UserError: If they do not.
        """
        if 2 * self.early_grip + self.early_end > 1:
            raise UserError(
                f"{prefix}early_grip={self.early_grip} and {prefix}early_end={self.early_end} are not valid together; "
                "2 * early_grip + early_end must be at most 1"
            )
