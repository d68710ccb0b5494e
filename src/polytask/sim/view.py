"""Access to the tensors of a batch by name, and constants that a captured graph can read."""

from __future__ import annotations

import mujoco
import torch
from torch import Tensor

from polytask.sim.base import Batch
from polytask.sim.geometry import right_product


class SceneView:
    """Access by name to a contiguous slice of a batch's worlds.

    Every result is a cached view of the batch's memory: a second call only costs a look-up.
    """

    def __init__(self, batch: Batch, worlds: slice) -> None:
        """Give access to `worlds` of `batch`."""
        self._batch = batch
        self._worlds = worlds
        self._views: dict[tuple[str, str], Tensor] = {}
        self._turns: dict[str, tuple[Tensor, Tensor]] = {}  # per site: orientation of its body, own rotation as matrix

    def body(self, name: str) -> Tensor:
        """Return the position of a body. (N, 3)"""
        return self._pose("xpos", mujoco.mjtObj.mjOBJ_BODY, name)

    def body_quat(self, name: str) -> Tensor:
        """Return the orientation of a body as wxyz. (N, 4)"""
        return self._pose("xquat", mujoco.mjtObj.mjOBJ_BODY, name)

    def site(self, name: str) -> Tensor:
        """Return the position of a site. (N, 3)"""
        return self._pose("site_xpos", mujoco.mjtObj.mjOBJ_SITE, name)

    def site_quat(self, name: str) -> Tensor:
        """Return the orientation of a site as wxyz: that of its body times its own fixed rotation. (N, 4)"""
        if name not in self._turns:
            model, index = self._batch.model, self._id(mujoco.mjtObj.mjOBJ_SITE, name)
            turn = torch.tensor(model.site_quat[index], dtype=torch.float32, device=self._batch.device)
            body = self._batch.xquat[self._worlds, int(model.site_bodyid[index])]
            self._turns[name] = (body[:, :, None], right_product(turn))
        body, product = self._turns[name]
        # Not a matrix product: on the CPU that would start torch's thread pool.
        return (body * product).sum(1)

    def joint(self, name: str) -> Tensor:
        """Return the position of a slide or hinge joint. (N,)"""
        key = ("qpos", name)
        if key not in self._views:
            address = int(self._batch.model.jnt_qposadr[self._id(mujoco.mjtObj.mjOBJ_JOINT, name)])
            self._views[key] = self._batch.qpos[self._worlds, address]
        return self._views[key]

    def sensor(self, name: str) -> Tensor:
        """Return the reading of a sensor. (N, dim)"""
        key = ("sensordata", name)
        if key not in self._views:
            index = self._id(mujoco.mjtObj.mjOBJ_SENSOR, name)
            start, size = int(self._batch.model.sensor_adr[index]), int(self._batch.model.sensor_dim[index])
            self._views[key] = self._batch.sensordata[self._worlds, start : start + size]
        return self._views[key]

    def _pose(self, field: str, kind: mujoco.mjtObj, name: str) -> Tensor:
        key = (field, name)
        if key not in self._views:
            self._views[key] = getattr(self._batch, field)[self._worlds, self._id(kind, name)]
        return self._views[key]

    def _id(self, kind: mujoco.mjtObj, name: str) -> int:
        index = mujoco.mj_name2id(self._batch.model, kind, name)
        if index < 0:
            raise KeyError(f"the scene has no {kind.name.removeprefix('mjOBJ_').lower()} named '{name}'")
        return index


_CONSTANTS: dict[tuple[tuple[float, ...], torch.device], Tensor] = {}


def constant(values: tuple[float, ...], like: Tensor) -> Tensor:
    """Return a cached constant tensor; a new one would need a host-to-device copy, which no graph can capture."""
    key = (values, like.device)
    if key not in _CONSTANTS:
        _CONSTANTS[key] = torch.tensor(values, dtype=torch.float32, device=like.device)
    return _CONSTANTS[key]
