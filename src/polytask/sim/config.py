"""Settings of the physics backends; this module imports neither torch nor MuJoCo."""

from __future__ import annotations

from dataclasses import dataclass

from polytask.settings import setting


@dataclass
class WarpSettings:
    """Settings of MuJoCo Warp; the CPU backend sizes its buffers itself and uses the solver settings of the scene."""

    contacts_per_world: int = setting(
        64, "contact slots per world, shared by all worlds of a scene (most seen: 48)", within=(1, 100_000)
    )
    constraints_per_world: int = setting(256, "constraint rows per world (most seen: 199)", within=(1, 100_000))
    iterations: int = setting(10, "maximum solver iterations per time step", within=(1, 10_000))
    line_search_iterations: int = setting(10, "maximum line-search steps per solver iteration", within=(1, 10_000))
    # MuJoCo's 1e-6 is below single precision: with it, resting cylinders fly off.
    collision_tolerance: float = setting(1e-4, "tolerance of the collision search, m", above=0.0)


@dataclass
class AutoSim(WarpSettings):
    """Warp on a CUDA device, else the CPU backend."""

    name: str = setting("auto", "name of this backend")


@dataclass
class CpuSim:
    """MuJoCo on the CPU; it has no settings."""

    name: str = setting("cpu", "name of this backend")


@dataclass
class WarpSim(WarpSettings):
    """MuJoCo Warp for NVIDIA GPUs; tests also run it on the CPU."""

    name: str = setting("warp", "name of this backend")


SIMS: dict[str, type[AutoSim | CpuSim | WarpSim]] = {"auto": AutoSim, "cpu": CpuSim, "warp": WarpSim}
