"""Physics: a batch of worlds of one compiled scene, on MuJoCo (CPU) or MuJoCo Warp (NVIDIA GPUs)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from polytask.errors import UserError
from polytask.sim.config import AutoSim, CpuSim, WarpSettings, WarpSim

if TYPE_CHECKING:
    import mujoco
    import torch

    from polytask.scenes.merge import MergedScene
    from polytask.sim.base import Batch

BACKENDS = ("cpu", "warp")


def make_batch(
    sim: str, model: mujoco.MjModel, num_worlds: int, device: torch.device, config: WarpSettings | None = None
) -> Batch:
    """Create `num_worlds` worlds of `model` on the named backend."""
    from polytask.sim.mujoco_clock import stop_clock
    from polytask.sim.mujoco_warnings import count_warnings

    count_warnings()
    stop_clock()
    if sim == "cpu":
        if device.type != "cpu":
            raise UserError(f"sim=cpu runs on the CPU only, not on {device}; use sim=warp for a GPU")
        from polytask.sim.cpu import CpuBatch

        return CpuBatch(model, num_worlds)
    if sim == "warp":
        _require_warp()
        from polytask.sim.warp import WarpBatch

        return WarpBatch(model, num_worlds, device, config or WarpSettings())
    raise UserError(f"unknown sim '{sim}'; known: {', '.join(BACKENDS)}")


def make_merged_batch(
    merged: MergedScene, worlds: Sequence[tuple[str, int]], device: torch.device, config: WarpSettings | None = None
) -> Batch:
    """Create worlds of several scenes of the same shape on the Warp backend; see `polytask.sim.merged`."""
    _require_warp()
    from polytask.sim.merged import make_merged_batch

    return make_merged_batch(merged, worlds, device, config or WarpSettings())


def _require_warp() -> None:
    try:
        import mujoco_warp  # noqa: F401  # an optional package
    except ImportError as error:
        raise UserError("sim=warp needs MuJoCo Warp; install it with: pip install 'polytask[gpu]'") from error


__all__ = ["BACKENDS", "AutoSim", "CpuSim", "WarpSettings", "WarpSim", "make_batch", "make_merged_batch"]
