"""The scene of MT-Opt: bins with objects, and the Panda of the other scenes with a softer gripper."""

from __future__ import annotations

from functools import cache

import mujoco

from polytask.scenes import load_spec

_TOUCHES_OBJECTS = 2  # contype of the gripping parts; they collide with objects, but not with bins
_SOFTER = 0.1  # factor of the fingers' force, damping and inertia: equally fast, but objects of 100 g are not crushed


@cache
def compile_mtopt(lid: bool) -> mujoco.MjModel:
    """Compile the bins with or without the lid; the model is cached and shared, so do not write to it."""
    spec = load_spec("mtopt", "panda.xml")
    if not lid:
        spec.delete(spec.body("lid"))
    spec.material("shell").specular = 0.0  # as everything else in this scene
    _soften_gripper(spec)
    return spec.compile()


def _soften_gripper(spec: mujoco.MjSpec) -> None:
    """Make pads, claws and rail collide only with objects, and press with less force."""
    for name in ("gripper", "leftfinger", "rightfinger"):
        for geom in spec.body(name).geoms:
            is_box = geom.type == mujoco.mjtGeom.mjGEOM_BOX  # the palm's cylinder is only visual
            geom.contype, geom.conaffinity = (_TOUCHES_OBJECTS if is_box else 0), 0
            geom.condim = 3  # as everything else in this scene
    for name in ("left_finger", "right_finger"):
        joint = spec.joint(name)
        joint.armature *= _SOFTER
        joint.damping *= _SOFTER
    for actuator in spec.actuators:
        if actuator.target in ("left_finger", "right_finger"):
            actuator.gear *= _SOFTER
