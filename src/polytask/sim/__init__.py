"""Physics: a batch of worlds of one compiled scene, on MuJoCo (CPU) or MuJoCo Warp (NVIDIA GPUs)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polytask.errors import UserError
from polytask.sim.config import AutoSim, CpuSim, WarpSettings, WarpSim

if TYPE_CHECKING:
    import mujoco
    import torch

    from polytask.sim.base import Batch

BACKENDS = ("cpu", "warp")


def make_batch(
    sim: str, model: mujoco.MjModel, num_worlds: int, device: torch.device, config: WarpSettings | None = None
) -> Batch:
    """Create `num_worlds` worlds of `model` on the named backend."""
    from polytask.sim.mujoco_warnings import count_warnings

    count_warnings()
    if sim == "cpu":
        if device.type != "cpu":
            raise UserError(f"sim=cpu runs on the CPU only, not on {device}; use sim=warp for a GPU")
        from polytask.sim.cpu import CpuBatch

        return CpuBatch(model, num_worlds)
    if sim == "warp":
        try:
            from polytask.sim.warp import WarpBatch
        except ImportError as error:
            raise UserError("sim=warp needs MuJoCo Warp; install it with: pip install 'polytask[gpu]'") from error
        return WarpBatch(model, num_worlds, device, config or WarpSettings())
    raise UserError(f"unknown sim '{sim}'; known: {', '.join(BACKENDS)}")


__all__ = ["BACKENDS", "AutoSim", "CpuSim", "WarpSettings", "WarpSim", "make_batch"]
