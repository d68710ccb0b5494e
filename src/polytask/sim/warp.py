"""The GPU backend: MuJoCo Warp, one captured CUDA graph per batch, zero-copy torch views of Warp's arrays.

The physics graph belongs to Warp, because its solver loops on a condition that only Warp can capture; everything else
runs in graphs that torch captures. Both are launched on torch's current stream. On the CPU device, for tests, nothing
is captured. Two GPU runs of one seed may differ in the last bits: bit-exact runs are the CPU backend's promise.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import mujoco
import mujoco_warp as mjw
import torch
import warp as wp
from torch import Tensor

from polytask.sim.base import SimConfig

wp.config.quiet = True
wp.init()  # before any stream of torch's is wrapped

_INVALID = int(
    mjw.OverflowType.NEFC
    | mjw.OverflowType.NJMAX_NNZ
    | mjw.OverflowType.BROADPHASE
    | mjw.OverflowType.NARROWPHASE
    | mjw.OverflowType.CCD
)
_STATE = ("qpos", "qvel", "ctrl", "mocap_pos", "mocap_quat", "time", "qacc_warmstart")
_CONTACTS_PER_WORLD = 64
_CONSTRAINTS_PER_WORLD = 256


@wp.kernel
def _replace_non_finite(broken: wp.array[bool], rows: wp.array2d[float]) -> None:  # type: ignore[valid-type]
    """Zero the entries of broken worlds that are not finite; called with (N, width) threads."""
    world, entry = wp.tid()
    if broken[world] and not wp.isfinite(rows[world, entry]):
        rows[world, entry] = 0.0


class WarpBatch:
    """N worlds on MuJoCo Warp; fulfils `sim.base.Batch`."""

    def __init__(self, model: mujoco.MjModel, num_worlds: int, device: torch.device, config: SimConfig) -> None:
        """Create the worlds in the scene's initial state."""
        self.model = model
        self.num_worlds = num_worlds
        self.device = device
        limited = copy.copy(model)
        limited.opt.iterations = config.iterations
        limited.opt.ls_iterations = config.line_search_iterations
        with self._on_stream():
            self._model = mjw.put_model(limited)
            self._model.opt.warn_overflow = 0  # reported by `diverged`, not printed by a kernel
            self._data = mjw.make_data(
                model,
                nworld=num_worlds,
                nconmax=config.contacts_per_world or _CONTACTS_PER_WORLD,
                njmax=config.constraints_per_world or _CONSTRAINTS_PER_WORLD,
            )
        data = self._data
        self.qpos, self.qvel, self.time = wp.to_torch(data.qpos), wp.to_torch(data.qvel), wp.to_torch(data.time)
        self.ctrl = wp.to_torch(data.ctrl)
        self.mocap_pos, self.mocap_quat = wp.to_torch(data.mocap_pos), wp.to_torch(data.mocap_quat)
        self.xpos, self.xquat = wp.to_torch(data.xpos), wp.to_torch(data.xquat)
        self.site_xpos, self.site_xmat = wp.to_torch(data.site_xpos), wp.to_torch(data.site_xmat)
        self.sensordata = wp.to_torch(data.sensordata)
        self.qacc_warmstart = wp.to_torch(data.qacc_warmstart)
        self.overflow = wp.to_torch(data.overflow)  # (N,) bits of mjw.OverflowType of the last step
        self.diverged = torch.zeros(num_worlds, dtype=torch.bool, device=device)
        self._any_diverged = torch.zeros(1, dtype=torch.int32, device=device)
        self._memory = [*_float_rows(data, num_worlds), *_float_rows(data.efc, num_worlds)]
        self._graphs: dict[int, wp.Graph] = {}
        self.forward()

    def step(self, substeps: int) -> None:
        """Advance every world by `substeps` time steps and refresh all tensors."""
        with self._on_stream():
            if self.device.type != "cuda":
                self._advance(substeps)
            else:
                if substeps not in self._graphs:
                    self._graphs[substeps] = self._capture(substeps)
                wp.capture_launch(self._graphs[substeps])

    def check(self) -> None:
        """Set `diverged` from the last step; apart from `step` so that torch can capture it."""
        finite = torch.isfinite(self.qpos).all(-1) & torch.isfinite(self.qvel).all(-1)
        torch.logical_or(~finite, (self.overflow & _INVALID) != 0, out=self.diverged)
        self._any_diverged.copy_(self.diverged.any())

    def forward(self) -> None:
        """Refresh poses without advancing time; sensors keep the values of the last step."""
        with self._on_stream():
            mjw.kinematics(self._model, self._data)

    def reset(self, mask: Tensor, qpos: Tensor, qvel: Tensor) -> None:
        """Write state rows where `mask` (N,) holds, with zero time."""
        rows = mask[:, None]
        self.qpos.copy_(torch.where(rows, qpos, self.qpos))
        self.qvel.copy_(torch.where(rows, qvel, self.qvel))
        self.qacc_warmstart.masked_fill_(rows, 0.0)
        self.time.masked_fill_(mask, 0.0)

    def state_dict(self) -> dict[str, Tensor]:
        """Return all that the next step depends on."""
        return {name: getattr(self, name).clone() for name in _STATE}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned and refresh all tensors."""
        for name in _STATE:
            getattr(self, name).copy_(state[name])
        self.forward()

    def _advance(self, substeps: int) -> None:
        self._data.overflow.zero_()
        wp.capture_if(wp.from_torch(self._any_diverged), on_true=self._forget_divergence)
        for _ in range(substeps):
            mjw.step(self._model, self._data)
        # Poses need kinematics alone; sensors of contact forces need the whole forward pass.
        refresh = mjw.forward if self.model.nsensor else mjw.kinematics
        refresh(self._model, self._data)

    def _forget_divergence(self) -> None:
        """Clear what NaN left in intermediate results: zero times NaN would carry it into the restarted world."""
        broken = wp.from_torch(self.diverged)
        for rows in self._memory:
            wp.launch(_replace_non_finite, dim=rows.shape, inputs=[broken], outputs=[rows])

    def _capture(self, substeps: int) -> wp.Graph:
        """Capture a control step; the eager steps before it load the kernels and must leave no trace."""
        before = self.state_dict()
        self._advance(substeps)
        for name, value in before.items():
            getattr(self, name).copy_(value)
        torch.cuda.synchronize(self.device)
        with wp.ScopedCapture() as capture:
            self._advance(substeps)
        return capture.graph

    @contextmanager
    def _on_stream(self) -> Iterator[None]:
        """Make Warp launch on torch's current stream (CUDA) or on its CPU device."""
        if self.device.type == "cuda":
            with wp.ScopedStream(wp.stream_from_torch(torch.cuda.current_stream(self.device)), sync_enter=False):
                yield
        else:
            with wp.ScopedDevice("cpu"):
                yield


def _float_rows(holder: object, num_worlds: int) -> list[wp.array]:
    """Return all float arrays of a Warp record that have one row per world, flattened to (N, width)."""
    arrays = [array for array in vars(holder).values() if isinstance(array, wp.array) and array.size > 0]
    tensors = [wp.to_torch(array) for array in arrays if array.shape[0] == num_worlds]
    return [wp.from_torch(t.view(num_worlds, -1)) for t in tensors if t.dtype == torch.float32 and t.dim() > 1]
