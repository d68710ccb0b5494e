"""Access to the tensors of a batch by name, and constants that a captured graph can read."""

from __future__ import annotations

import mujoco
import torch
from torch import Tensor

from polytask.scenes.merge import Layout
from polytask.sim.base import Batch
from polytask.sim.geometry import right_product


class SceneView:
    """Access by name to a contiguous slice of a batch's worlds.

    Every result is a cached view of the batch's memory: a second call only costs a look-up.
    """

    def __init__(self, batch: Batch, worlds: slice, layout: Layout | None = None) -> None:
        """Give access to `worlds` of `batch`.

        Args:
            batch: The worlds.
            worlds: Some of them, all of one scene.
            layout: Where the parts of that scene are in the batch; None if the batch has only this scene.
        """
        self._batch = batch
        self._worlds = worlds
        self._layout = layout or Layout.alone(batch.model)
        self._views: dict[tuple[str, str], Tensor] = {}
        self._turns: dict[str, tuple[Tensor, Tensor]] = {}  # per site: orientation of its body, own rotation as matrix

    def body(self, name: str) -> Tensor:
        """Return the position of a body. (N, 3)"""
        key = ("body", name)
        if key not in self._views:
            index = self._layout.body(name)
            self._views[key] = self.site(self._layout.mark(name)) if index is None else self._row("xpos", index)
        return self._views[key]

    def body_quat(self, name: str) -> Tensor:
        """Return the orientation of a body as wxyz. (N, 4)"""
        key = ("body_quat", name)
        if key not in self._views:
            index = self._layout.body(name)
            if index is None:
                return self.site_quat(self._layout.mark(name))
            self._views[key] = self._row("xquat", index)
        return self._views[key]

    def site(self, name: str) -> Tensor:
        """Return the position of a site. (N, 3)"""
        key = ("site", name)
        if key not in self._views:
            index = self._id(mujoco.mjtObj.mjOBJ_SITE, name)
            self._views[key] = self._row("site_xpos", int(self._layout.sites[index]))
        return self._views[key]

    def site_quat(self, name: str) -> Tensor:
        """Return the orientation of a site as wxyz: that of its body times its own fixed rotation. (N, 4)"""
        if name not in self._turns:
            model, index = self._layout.model, self._id(mujoco.mjtObj.mjOBJ_SITE, name)
            turn = torch.tensor(model.site_quat[index], dtype=torch.float32, device=self._batch.device)
            body = self._batch.xquat[self._worlds, int(self._layout.bodies[model.site_bodyid[index]])]
            self._turns[name] = (body[:, :, None], right_product(turn))
        body, product = self._turns[name]
        # Not a matrix product: on the CPU that would start torch's thread pool.
        return (body * product).sum(1)

    def joint(self, name: str) -> Tensor:
        """Return the position of a slide or hinge joint. (N,)"""
        key = ("joint", name)
        if key not in self._views:
            index = self._id(mujoco.mjtObj.mjOBJ_JOINT, name)
            self._views[key] = self._row("qpos", int(self._layout.model.jnt_qposadr[index]))
        return self._views[key]

    def sensor(self, name: str) -> Tensor:
        """Return the reading of a sensor. (N, dim)"""
        key = ("sensor", name)
        if key not in self._views:
            model, index = self._layout.model, self._id(mujoco.mjtObj.mjOBJ_SENSOR, name)
            start = int(model.sensor_adr[index])
            self._views[key] = self._row("sensordata", slice(start, start + int(model.sensor_dim[index])))
        return self._views[key]

    def _row(self, field: str, index: int | slice) -> Tensor:
        """Return a view of one entry of a field, for all worlds."""
        tensor: Tensor = getattr(self._batch, field)
        return tensor[self._worlds, index]

    def _id(self, kind: mujoco.mjtObj, name: str) -> int:
        index = mujoco.mj_name2id(self._layout.model, kind, name)
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
