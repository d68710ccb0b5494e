"""Render all worlds of a batch: one by one with OpenGL on the CPU, all at once with ray casting in Warp.

Both draw without shadows, reflections and textures, so that the same network can use pictures from either.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import mujoco
import numpy as np
import torch
from torch import Tensor

from polytask.sim.base import Batch
from polytask.sim.cpu import CpuBatch
from polytask.sim.opengl import make_renderer

if TYPE_CHECKING:
    from polytask.sim.warp import WarpBatch

_BACKGROUND = (0.80, 0.84, 0.88)  # where a ray hits nothing; same as the flat sky of the scene


class Cameras(Protocol):
    """V fixed cameras in each of N worlds."""

    def render(self) -> Tensor:
        """Draw the current state of all worlds into a buffer that the next call overwrites. (N, V, H, W, 3) uint8"""
        ...

    def close(self) -> None:
        """Free the resources; call it in the thread that called `render`."""
        ...


def make_cameras(batch: Batch, names: Sequence[str], size: tuple[int, int]) -> Cameras:
    """Create the named cameras of the scene for a batch; pictures have this height and width, pixels."""
    if isinstance(batch, CpuBatch):
        return CpuCameras(batch, names, size)
    from polytask.sim.warp import WarpBatch

    assert isinstance(batch, WarpBatch)  # there are only these two backends
    return WarpCameras(batch, names, size)


class CpuCameras:
    """Cameras for worlds on the CPU; MuJoCo's renderer draws one picture after another."""

    def __init__(self, batch: CpuBatch, names: Sequence[str], size: tuple[int, int]) -> None:
        """Open an off-screen OpenGL context."""
        self._batch = batch
        self._model = copy.copy(batch.model)
        # The whole off-screen buffer is filled and read: one larger than the pictures would take most of the time.
        self._model.vis.global_.offheight, self._model.vis.global_.offwidth = size
        self._data = mujoco.MjData(self._model)
        self._cameras = [int(batch.model.camera(name).id) for name in names]
        self._renderer = make_renderer(self._model, size[1], size[0])
        for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION, mujoco.mjtRndFlag.mjRND_HAZE):
            self._renderer.scene.flags[flag] = False
        self._images = torch.zeros(batch.num_worlds, len(names), *size, 3, dtype=torch.uint8)

    def render(self) -> Tensor:
        """Draw the current state of all worlds. (N, V, H, W, 3)"""
        model, data, images = self._model, self._data, self._images.numpy()
        qpos, mocap = self._batch.qpos.numpy(), self._batch.mocap_pos.numpy()
        for world in range(self._batch.num_worlds):
            data.qpos[:] = qpos[world]
            data.mocap_pos[:] = mocap[world]
            mujoco.mj_kinematics(model, data)
            mujoco.mj_camlight(model, data)
            for view, camera in enumerate(self._cameras):
                self._renderer.update_scene(data, camera)
                np.copyto(images[world, view], self._renderer.render())
        return self._images

    def close(self) -> None:
        """Free the context."""
        self._renderer.close()


class WarpCameras:
    """Cameras for worlds in MuJoCo Warp; one launch draws them all, without waiting for the device."""

    def __init__(self, batch: WarpBatch, names: Sequence[str], size: tuple[int, int]) -> None:
        """Build the ray caster's bounding volume hierarchy of the geoms."""
        import mujoco_warp as mjw
        import warp as wp

        self._warp, self._batch = mjw, batch
        height, width = size
        self._shape = (batch.num_worlds, len(names), height, width, 4)
        with batch.on_stream():
            self._context = mjw.create_render_context(
                batch.model,
                nworld=batch.num_worlds,
                cam_res=(width, height),
                cam_active=list(names),
                render_rgb=True,
                render_depth=False,
                render_seg=False,
                use_textures=False,
                use_shadows=False,
                enable_specular=False,
                enable_emission=False,
                enable_per_light_ambient=False,
                background_color=(*_BACKGROUND, 1.0),
            )
        # Pixels are int32 with blue in the lowest byte.
        self._pixels = wp.to_torch(self._context.rgb_data.view(wp.int32))

    def render(self) -> Tensor:
        """Draw the current state of all worlds. (N, V, H, W, 3)"""
        model, data = self._batch.warp_model, self._batch.warp_data
        with self._batch.on_stream():
            self._warp.camlight(model, data)
            self._warp.refit_bvh(model, data, self._context)
            self._warp.render(model, data, self._context)
        return self._pixels.view(torch.uint8).view(self._shape)[..., :3].flip(-1)

    def close(self) -> None:
        """Do nothing: there is nothing to free explicitly."""
