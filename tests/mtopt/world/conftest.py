"""Pictures come from EGL, which needs no display."""

import os

os.environ.setdefault("MUJOCO_GL", "egl")
