"""MuJoCo's own window, for the first world."""

from __future__ import annotations

import math
import os
import sys
import time
import warnings
from collections.abc import Sequence

import mujoco
import numpy as np

from polytask.envs.views import SCENE
from polytask.errors import UserError
from polytask.viewer.scene import Scene, WorldScene
from polytask.viewer.session import Session

_PICTURES = 60.0  # per second, at most
_DISTANCE = 1.6  # metres from the camera to the point around which it turns


def check_display() -> None:
    """Check that a window can be opened. Without this, MuJoCo would end the process.

    Raises:
        UserError: If none can be opened.
    """
    if sys.platform != "linux":
        return
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise UserError("viewer=native needs a display, and there is none; use viewer=web, the default")
    if not _can_open_window():
        raise UserError("viewer=native cannot open a window on this display; use viewer=web, the default")


def _can_open_window() -> bool:
    """Open a window that is not shown, and close it."""
    import glfw  # comes with MuJoCo

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # GLFW says in them what fails, in several lines
        if not glfw.init():
            return False
        glfw.window_hint(glfw.VISIBLE, glfw.FALSE)
        window = glfw.create_window(64, 64, "polytask", None, None)
        glfw.terminate()
    return bool(window)


def run(session: Session, stops: Sequence[int]) -> None:
    """Show the first world until its window is closed or a signal arrives.

    Raises:
        UserError: If the window cannot be opened.
    """
    import mujoco.viewer

    scene = Scene(session.env)
    world = scene.worlds[0]
    try:
        window = mujoco.viewer.launch_passive(world.model, world.data, show_left_ui=False)
    except Exception as error:  # the type depends on what is missing
        raise UserError(f"MuJoCo cannot open its window ({error}); use viewer=web, the default") from error
    with window:
        with window.lock():
            aim(window.cam, world)
        last = time.perf_counter()
        while window.is_running() and not stops:
            now = time.perf_counter()
            with window.lock():
                if session.advance(now - last):
                    scene.read()
            window.sync()
            last = now
            time.sleep(max(0.001, 1 / _PICTURES - (time.perf_counter() - now)))


def aim(camera: mujoco.MjvCamera, world: WorldScene) -> None:
    """Look at a world as videos do, with a camera that the mouse can turn, and that goes with a robot that walks.

    MuJoCo has computed the pose of the scene's own camera when it opened the window.
    """
    number = world.model.camera(SCENE).id
    toward = -world.data.cam_xmat[number].reshape(3, 3)[:, 2]
    camera.type = mujoco.mjtCamera.mjCAMERA_FREE
    camera.azimuth = math.degrees(math.atan2(toward[1], toward[0]))
    camera.elevation = math.degrees(math.asin(np.clip(toward[2], -1.0, 1.0)))
    camera.distance = _DISTANCE
    camera.lookat[:] = world.data.cam_xpos[number] + _DISTANCE * toward
    if world.root_body is not None:
        camera.type, camera.trackbodyid = mujoco.mjtCamera.mjCAMERA_TRACKING, world.root_body
