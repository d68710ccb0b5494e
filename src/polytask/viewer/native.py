"""MuJoCo's own window, for the first world."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from polytask.errors import UserError
from polytask.viewer.scene import Scene
from polytask.viewer.session import Session

_PICTURES = 60.0  # per second, at most


def check_display() -> None:
    """Check that there is a display.

    Raises:
        UserError: If there is none.
    """
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise UserError("viewer=native needs a display, and there is none; use viewer=web, the default")


def run(session: Session, stops: Sequence[int]) -> None:
    """Show the first world until its window is closed or a signal arrives.

    Raises:
        UserError: If the window cannot be opened.
    """
    check_display()
    import mujoco.viewer

    scene = Scene(session.env)
    world = scene.worlds[0]
    try:
        window = mujoco.viewer.launch_passive(world.model, world.data, show_left_ui=False)
    except Exception as error:  # the type depends on what is missing
        raise UserError(f"MuJoCo cannot open its window ({error}); use viewer=web, the default") from error
    with window:
        last = time.perf_counter()
        while window.is_running() and not stops:
            now = time.perf_counter()
            with window.lock():
                if session.advance(now - last):
                    scene.read()
            window.sync()
            last = now
            time.sleep(max(0.001, 1 / _PICTURES - (time.perf_counter() - now)))
