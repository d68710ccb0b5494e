"""Multi-task reinforcement learning for robots, on thousands of simulated worlds at once."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"


def _choose_opengl() -> None:
    """Let MuJoCo render off screen where there is no display: it picks its OpenGL platform when it is imported."""
    if sys.platform != "linux" or "MUJOCO_GL" in os.environ or "DISPLAY" in os.environ:
        return
    try:
        ctypes.CDLL("libEGL.so.1")
    except OSError:
        return
    os.environ["MUJOCO_GL"] = "egl"


def _use_all_queues() -> None:
    """Let the streams of up to 32 scenes run side by side: CUDA's default is eight queues, fixed when it starts."""
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")


_choose_opengl()
_use_all_queues()

if TYPE_CHECKING:
    from polytask.envs.make import make as make


def __getattr__(name: str) -> Any:
    """Import `make` on first use, so that `polytask --help` need not load torch and MuJoCo."""
    if name == "make":
        from polytask.envs.make import make

        return make
    raise AttributeError(f"module 'polytask' has no attribute '{name}'")
