"""Stop MuJoCo's clock. Its Python package installs one, which is read before and after every stage of a time step."""

from __future__ import annotations

import ctypes
from pathlib import Path

import mujoco


def stop_clock() -> None:
    """Leave `mjData.timer` at zero from now on, unless the user has installed another clock."""
    if mujoco.get_mjcb_time() is None:
        clock().value = None


def clock() -> ctypes.c_void_p:
    """Return MuJoCo's variable of the clock; `set_mjcb_time(None)` would leave the clock of the package in place."""
    names = ("libmujoco.*", "mujoco.dll")  # Linux and macOS, Windows
    library = next(path for name in names for path in Path(mujoco.__file__).parent.glob(name))
    return ctypes.c_void_p.in_dll(ctypes.CDLL(str(library)), "mjcb_time")
