"""Settings of the physics backends; needs neither torch nor MuJoCo."""

from __future__ import annotations

from dataclasses import dataclass

from polytask.settings import setting


@dataclass
class SimConfig:
    """Settings of MuJoCo Warp; the CPU backend sizes its own buffers and solves as the scene says."""

    contacts_per_world: int = setting(64, "contact slots, shared by all worlds of a scene (at most 48 seen in one)")
    constraints_per_world: int = setting(256, "constraint rows per world (at most 199 seen)")
    iterations: int = setting(10, "most solver iterations in a time step")
    line_search_iterations: int = setting(10, "most line-search steps in a solver iteration")
    # With MuJoCo's 1e-6, below single precision, resting cylinders are shot away.
    collision_tolerance: float = setting(1e-4, "precision of the collision search, m")


@dataclass
class AutoSim(SimConfig):
    """Warp on a CUDA device, else the CPU backend."""

    name: str = setting("auto", "name of this backend")


@dataclass
class CpuSim:
    """MuJoCo on the CPU; it has no settings."""

    name: str = setting("cpu", "name of this backend")


@dataclass
class WarpSim(SimConfig):
    """MuJoCo Warp, for NVIDIA GPUs; on the CPU for tests."""

    name: str = setting("warp", "name of this backend")


SIMS: dict[str, type[AutoSim | CpuSim | WarpSim]] = {"auto": AutoSim, "cpu": CpuSim, "warp": WarpSim}
