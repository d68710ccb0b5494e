"""MuJoCo's own renderer with off-screen OpenGL."""

from __future__ import annotations

from typing import Any

import mujoco

from polytask.errors import UserError

_MISSING = (
    "no pictures: OpenGL is missing; on Debian or Ubuntu: apt-get install libegl1 libegl-mesa0 libgl1 libgl1-mesa-dri"
)


def make_renderer(model: mujoco.MjModel, width: int, height: int) -> Any:
    """Open an off-screen context that renders a model.

    Raises:
        UserError: If the machine has no OpenGL.
    """
    try:
        return mujoco.Renderer(model, height, width)
    # The exception depends on which library is missing: ImportError, AttributeError or the binding's own error.
    except Exception as error:
        raise UserError(_MISSING) from error
