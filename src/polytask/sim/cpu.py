"""The CPU backend: `mujoco.batch.Batch` with one thread per batch; Python threads step several batches in parallel.

MuJoCo keeps its state in float64; the float32 tensors mirror it. Results are bit-identical from run to run.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
import torch
from mujoco.batch import Batch as MujocoBatch
from torch import Tensor

from polytask.sim.base import Drive, Shapes

_STATE = ("qpos", "qvel", "time", "sensordata")
_READ = (*_STATE, "xpos", "xquat", "site_xpos")
_WRITTEN = ("ctrl", "mocap_pos")
_TORQUE_LIMITS = "actuator_forcerange"
_POSITION, _WHOLE = int(mujoco.mjtStage.mjSTAGE_POS), int(mujoco.mjtStage.mjSTAGE_ACC)
# Without these two, the position stage computes poses and nothing else that takes long.
_NO_CONTACTS = int(mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
# Warnings that report a full buffer.
_FULL = slice(int(mujoco.mjtWarning.mjWARN_CONTACTFULL), int(mujoco.mjtWarning.mjWARN_CNSTRFULL) + 1)


@dataclass(frozen=True)
class _CpuDrive:
    """The arrays of a `Drive`, and those of MuJoCo that it reads and writes."""

    arrays: dict[str, np.ndarray]  # by the names of `Drive`
    dofs: np.ndarray  # (nu,) of the motors' joints
    qvel: np.ndarray  # (N, nv)
    ctrl: np.ndarray  # (N, nu)
    limits: np.ndarray  # (N, nu, 2)

    def prepare(self, index: int) -> None:
        """Set targets and torque limits for the time step `index` of a control step."""
        a = self.arrays
        self.ctrl[:] = np.where((index < a["delay"])[:, None], a["previous"], a["target"])
        share = self.qvel[:, self.dofs] / a["speed"]
        self.limits[..., 0] = -a["torque"] * np.clip(1.0 + share, -1.0, 1.0)
        self.limits[..., 1] = a["torque"] * np.clip(1.0 - share, -1.0, 1.0)


class CpuBatch:
    """N worlds on MuJoCo; implements `sim.base.Batch`."""

    def __init__(self, model: mujoco.MjModel, num_worlds: int) -> None:
        """Create the worlds in the scene's initial state."""
        self.model = model
        self.num_worlds = num_worlds
        self.device = torch.device("cpu")
        self._batch = MujocoBatch(model, num_worlds, nthread=1)
        self._flags = self._batch.expand("opt.disableflags")
        self._is_placed = False
        self._drive: _CpuDrive | None = None
        self._source = {name: self._batch.bind(name) for name in (*_READ, *_WRITTEN, "mocap_quat")}
        tensors = {name: torch.zeros(array.shape, dtype=torch.float32) for name, array in self._source.items()}
        self.qpos, self.qvel, self.time = tensors["qpos"], tensors["qvel"], tensors["time"]
        self.xpos, self.xquat = tensors["xpos"], tensors["xquat"]
        self.site_xpos = tensors["site_xpos"]
        self.ctrl, self.mocap_pos, self.mocap_quat = tensors["ctrl"], tensors["mocap_pos"], tensors["mocap_quat"]
        self.sensordata = tensors["sensordata"]
        self.diverged, self.overflowed = torch.zeros(2, num_worlds, dtype=torch.bool).unbind()
        self._mirror = {name: tensor.numpy() for name, tensor in tensors.items()}
        self._diverged, self._overflowed = self.diverged.numpy(), self.overflowed.numpy()
        self._warnings = self._batch.warning[:, :, 1]  # (N, kinds); the last axis is (info, count)
        self._reset = np.zeros(num_worlds, dtype=bool)  # worlds that were reset since the last `forward`
        self._batch.reset(stage=_WHOLE)
        for name in (*_WRITTEN, "mocap_quat"):
            np.copyto(self._mirror[name], self._source[name], casting="same_kind")
        self._pull()

    def step(self, substeps: int, *, refresh: bool = True) -> None:
        """Advance every world by `substeps` time steps; refresh all tensors or, without `refresh`, the state only."""
        self._push()
        self._warnings[:] = 0
        if self._drive is None:
            self._batch.step(nstep=substeps)
        else:
            for index in range(substeps):
                self._drive.prepare(index)
                self._batch.step(nstep=1)
        if refresh:
            self._derive()
        else:
            self._pull(_STATE)

    def check(self) -> None:
        """Set `diverged` and `overflowed` where MuJoCo counted warnings; it resets worlds with a bad state itself."""
        np.logical_or.reduce(self._warnings, axis=1, out=self._diverged)
        np.logical_or.reduce(self._warnings[:, _FULL], axis=1, out=self._overflowed)

    def warn_of_overflow(self) -> None:
        """Do nothing: MuJoCo's buffers grow as needed."""

    def forward(self) -> None:
        """Recompute what derives from `qpos` and `mocap_pos`: of worlds that were reset or, if none was, of all."""
        self._push()
        self._derive(np.flatnonzero(self._reset) if self._reset.any() else None)
        self._reset[:] = False

    def reset(self, mask: Tensor, qpos: Tensor, qvel: Tensor) -> None:
        """Write state rows and zero time where `mask` (N,) is true."""
        rows = mask.numpy()
        self._reset |= rows
        for name, values in (("qpos", qpos), ("qvel", qvel)):
            self._source[name][rows] = self._mirror[name][rows] = values.numpy()[rows]
        self._batch.bind("qacc_warmstart")[rows] = 0.0
        self._source["time"][rows] = self._mirror["time"][rows] = 0.0

    def vary(self, fields: dict[str, Tensor]) -> None:
        """Set model fields to a value per world and update the constants that derive from them."""
        for name, values in fields.items():
            self._batch.expand(name)[:] = values.numpy()
        self._batch.set_const()

    def rewrite(self, mask: Tensor, fields: dict[str, Tensor]) -> None:
        """Set model fields where `mask` is true and update the constants that derive from them."""
        rows = np.flatnonzero(mask.numpy())
        if len(rows):
            for name, values in fields.items():
                self._batch.expand(name)[rows] = values.numpy()[rows]
            self._batch.set_const(rows)

    def drive(self, drive: Drive) -> None:
        """Let the motors follow `drive.target` from now on."""
        dofs = self.model.jnt_dofadr[self.model.actuator_trnid[:, 0]]
        arrays = {name: tensor.numpy() for name, tensor in vars(drive).items()}
        source = self._source
        self._drive = _CpuDrive(arrays, dofs, source["qvel"], source["ctrl"], self._batch.expand(_TORQUE_LIMITS))

    def place(self, mask: Tensor, shapes: Shapes) -> None:
        """Move and resize the first geoms where `mask` is true, and update MuJoCo's bounding volumes."""
        rows = np.flatnonzero(mask.numpy())
        if len(rows):
            for name, values in vars(shapes).items():
                self._batch.expand(f"geom_{name}")[rows, : values.shape[1]] = values.numpy()[rows]
            self._batch.set_const(rows)
            self._is_placed = True

    def copy_layout(self, world: int, model: mujoco.MjModel) -> None:
        """Write the model of a world into a copy, if `place` has made it differ from others."""
        if self._is_placed:
            self._batch.get_model(world, model)

    def state_dict(self) -> dict[str, Tensor]:
        """Return MuJoCo's full integration state in float64."""
        return {"state": torch.from_numpy(self._batch.state.copy())}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned and refresh all tensors."""
        self._batch.state[:] = state["state"].numpy()
        for name in _WRITTEN:
            np.copyto(self._mirror[name], self._source[name], casting="same_kind")
        self._derive()

    def _derive(self, worlds: np.ndarray | None = None) -> None:
        """Recompute poses and sensors of some worlds or of all, and refresh all tensors."""
        if self.model.nsensor:  # sensors of contact forces need the whole forward pass
            self._batch.forward(worlds, stage=_WHOLE)
        else:
            self._flags |= _NO_CONTACTS
            self._batch.forward(worlds, stage=_POSITION)
            self._flags &= ~_NO_CONTACTS
        self._pull()

    def _push(self) -> None:
        for name in _WRITTEN:
            np.copyto(self._source[name], self._mirror[name])

    def _pull(self, names: tuple[str, ...] = _READ) -> None:
        for name in names:
            np.copyto(self._mirror[name], self._source[name], casting="same_kind")
