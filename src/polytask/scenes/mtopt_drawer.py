"""The drawer of the manipulation tasks for MT-Opt: with a Sawyer, flat colours and cameras of its own."""

from __future__ import annotations

from functools import cache

import mujoco
import numpy as np

from polytask.scenes import load_spec

_SKY = (0.80, 0.84, 0.88)  # as the bins' sky, and what the ray caster draws where a ray hits nothing
_COLOURS = {"floor": (0.77, 0.79, 0.82, 1.0), "table": (0.78, 0.66, 0.50, 1.0)}  # their textures' means
_LOOK_AT = (0.0, 0.74, 0.10)  # the handle's range
_FOVY = 38.0  # vertical field of view, degrees
# Name and position. The policy sees the first two, the success detector the others.
CAMERAS = {
    "left": (-0.70, 0.40, 0.55),
    "right": (0.70, 0.40, 0.55),
    "side": (0.95, 0.62, 0.35),
    "above": (0.0, 0.70, 1.05),
}


@cache
def compile_mtopt_drawer(robot_file: str) -> mujoco.MjModel:
    """Compile the drawer with a robot; the model is cached and shared, so do not write to it."""
    spec = load_spec("drawer", robot_file)
    spec.delete(spec.body("goal"))  # a marker, which no real camera shows
    for material in spec.materials:
        material.specular = 0.0
        if material.name in _COLOURS:
            material.textures = [""] * len(material.textures)
            material.rgba = _COLOURS[material.name]
    sky = spec.texture("sky")
    sky.builtin, sky.rgb1, sky.rgb2 = mujoco.mjtBuiltin.mjBUILTIN_FLAT, _SKY, _SKY
    for name, place in CAMERAS.items():
        spec.worldbody.add_camera(name=name, pos=place, quat=_towards(place), fovy=_FOVY)
    return spec.compile()


def _towards(place: tuple[float, float, float]) -> np.ndarray:
    """Return the orientation of a camera at a place that looks at the handle, with the world's y or z axis up."""
    back = np.array(place) - np.array(_LOOK_AT)
    right = np.cross((0.0, 1.0, 0.0) if abs(back[0]) < 1e-6 else (0.0, 0.0, 1.0), back)
    axes = np.stack([right, np.cross(back, right), back])
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, axes.T.flatten())
    return quat
