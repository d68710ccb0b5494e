"""Pictures of single worlds through MuJoCo's own renderer, for videos and the gallery.

State is copied into one `MjData`, so that worlds of either backend look the same.
"""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from polytask.env import MultiTaskEnv
from polytask.types import UserError

_NO_OPENGL = (
    "no pictures: OpenGL is missing; on Debian or Ubuntu: apt-get install libegl1 libegl-mesa0 libgl1 libgl1-mesa-dri"
)
_CAMERA = "scene"


class Renderer:
    """Draws the worlds of one task of an environment."""

    def __init__(self, env: MultiTaskEnv, task: str, width: int = 480, height: int = 360) -> None:
        """Open an off-screen context."""
        group, worlds = next((g, w) for g in env.groups for w in g.tasks if w.task.name == task)
        self._batch, self._first = group.batch, worlds.worlds.start
        self._model = group.model
        self._data = mujoco.MjData(group.model)
        try:
            self._renderer: Any = mujoco.Renderer(group.model, height, width)
        # The binding raises whatever the missing library happens to cause: ImportError, AttributeError, an own error.
        except Exception as error:
            raise UserError(_NO_OPENGL) from error

    def frame(self, world: int = 0) -> NDArray[np.uint8]:
        """Draw the task's `world`-th world as it is now. (H, W, 3)"""
        row = self._first + world
        self._data.qpos[:] = self._batch.qpos[row].cpu().numpy()
        self._data.mocap_pos[:] = self._batch.mocap_pos[row].cpu().numpy()
        self._data.mocap_quat[:] = self._batch.mocap_quat[row].cpu().numpy()
        mujoco.mj_forward(self._model, self._data)
        self._renderer.update_scene(self._data, camera=_CAMERA)
        image: NDArray[np.uint8] = self._renderer.render().copy()  # the renderer reuses its buffer
        return image

    def close(self) -> None:
        """Free the context."""
        self._renderer.close()
