"""Stop MuJoCo's clock. Its Python package installs one, which is read before and after every stage of a time step."""

from __future__ import annotations

import ctypes
from pathlib import Path

import mujoco


def stop_clock() -> None:
    """Leave `mjData.timer` at zero from now on, unless the user has installed another clock.

    Python cannot take away the clock of the package with `set_mjcb_time(None)`, so this writes MuJoCo's own variable.
    """
    if mujoco.get_mjcb_time() is None:
        for library in Path(mujoco.__file__).parent.glob("*mujoco*.*"):
            if library.name.startswith(("libmujoco.", "mujoco.dll")):
                ctypes.c_void_p.in_dll(ctypes.CDLL(str(library)), "mjcb_time").value = None
