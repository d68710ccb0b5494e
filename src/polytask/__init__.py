"""Multi-task reinforcement learning for robots, on thousands of simulated worlds at once."""

from __future__ import annotations

import ctypes
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from polytask.envs.registration import register_when_loaded

__version__ = "0.2.0"


def _choose_opengl() -> None:
    """Choose off-screen rendering with EGL if there is no display.

    MuJoCo reads the variable when it is imported. `sim.opengl` also reads it, in case MuJoCo was imported before.
    """
    if sys.platform != "linux" or "MUJOCO_GL" in os.environ or "DISPLAY" in os.environ:
        return
    try:
        ctypes.CDLL("libEGL.so.1")
    except OSError:
        return
    os.environ["MUJOCO_GL"] = "egl"


def _use_all_queues() -> None:
    """Allow the streams of up to 32 scenes to run in parallel.

    CUDA uses eight queues by default and reads the number once, when it starts.
    """
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")


def _limit_instructions() -> None:
    """Keep oneDNN, which torch uses for products on the CPU, from using AMX.

    Some virtual machines advertise AMX but cannot run it: a bfloat16 product then kills the process. Products in
    float32, as in all training on the CPU, do not use AMX. oneDNN reads the variable once, at torch's first product.
    """
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")


_choose_opengl()
_use_all_queues()
_limit_instructions()
register_when_loaded()

if TYPE_CHECKING:
    from polytask.envs.make import make as make
    from polytask.plugins.loading import load_plugins as load_plugins
    from polytask.plugins.register import register_algo as register_algo
    from polytask.plugins.register import register_grad as register_grad
    from polytask.plugins.register import register_net as register_net
    from polytask.plugins.register import register_suite as register_suite
    from polytask.plugins.worlds import register_robot as register_robot
    from polytask.plugins.worlds import register_task as register_task
    from polytask.plugins.worlds import register_terrain as register_terrain
    from polytask.plugins.worlds import register_world as register_world
    from polytask.runs.policy import load_policy as load_policy
    from polytask.runs.python_api import TrainedRun as TrainedRun
    from polytask.runs.python_api import train as train

# The public functions and where they are. They are imported on first use, so that `polytask --help` does not load torch
# and MuJoCo.
_PUBLIC = {
    "make": "polytask.envs.make",
    "load_policy": "polytask.runs.policy",
    "train": "polytask.runs.python_api",
    "TrainedRun": "polytask.runs.python_api",
    "load_plugins": "polytask.plugins.loading",
    **dict.fromkeys(("register_net", "register_grad", "register_algo", "register_suite"), "polytask.plugins.register"),
    **dict.fromkeys(
        ("register_task", "register_terrain", "register_robot", "register_world"), "polytask.plugins.worlds"
    ),
}


def __getattr__(name: str) -> Any:
    """Import a public function on first use."""
    if name in _PUBLIC:
        if name in ("make", "train", "load_policy"):
            import_module("polytask.plugins.loading").load_installed()  # what they are called with may be a plug-in's
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'polytask' has no attribute '{name}'")


def __dir__() -> list[str]:
    """List the public functions too."""
    return sorted({*globals(), *_PUBLIC})
