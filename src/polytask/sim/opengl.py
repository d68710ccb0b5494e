"""MuJoCo's own renderer with off-screen OpenGL."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import mujoco
from mujoco.rendering.classic import gl_context

from polytask.errors import UserError

_MISSING = (
    "no pictures: OpenGL is missing; on Debian or Ubuntu: apt-get install libegl1 libegl-mesa0 libgl1 libgl1-mesa-dri"
)


def make_renderer(model: mujoco.MjModel, width: int, height: int) -> Any:
    """Open an off-screen context that renders a model.

    Raises:
        UserError: If the picture is too large or the machine has no OpenGL.
    """
    largest = model.vis.global_
    if width > largest.offwidth or height > largest.offheight:
        raise UserError(
            f"a picture of {width} x {height} pixels is too large; the largest is "
            f"{largest.offwidth} x {largest.offheight}"
        )
    # Mesa's software OpenGL and Triton both contain LLVM, and a process that loads Triton after Mesa crashes. Torch
    # imports Triton with its first optimizer, so it is imported here first.
    if find_spec("triton") is not None:
        import_module("triton")
    size = largest.offwidth, largest.offheight
    try:
        _use_egl()
        # The whole buffer is filled and read: one larger than the pictures takes more memory and a third more time.
        largest.offwidth, largest.offheight = width, height
        return mujoco.Renderer(model, height, width)
    # The exception depends on which library is missing: ImportError, AttributeError or the binding's own error.
    except Exception as error:
        raise UserError(_MISSING) from error
    finally:
        largest.offwidth, largest.offheight = size


def _use_egl() -> None:
    """Let MuJoCo use EGL where MUJOCO_GL asks for it.

    MuJoCo reads the variable when it is imported. If that was before polytask set it, MuJoCo has chosen a platform that
    needs a display.
    """
    if os.environ.get("MUJOCO_GL") == "egl":
        from mujoco.egl import GLContext

        gl_context.GLContext = GLContext
