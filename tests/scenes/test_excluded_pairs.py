"""Pairs of bodies that a scene excludes from collisions: they must be pairs that never meet."""

from __future__ import annotations

import itertools
from importlib import resources

import mujoco
import numpy as np
import pytest

from polytask.scenes import compile_scene

BEYOND = 0.1  # a joint limit is soft: look this share of the range past both ends
POSITIONS = 15  # of each joint
SCENES = ("coffee", "door_lock", "lever", "window", "puck")


def joints_between(model: mujoco.MjModel, first: int, second: int) -> list[int]:
    """Return the joints that move one body relative to the other."""
    moved_by = []
    for body in (first, second):
        joints = set()
        while body:
            joints |= set(range(int(model.body_jntadr[body]), int(model.body_jntadr[body] + model.body_jntnum[body])))
            body = int(model.body_parentid[body])
        moved_by.append(joints)
    return sorted(moved_by[0] ^ moved_by[1])


def geoms_of(model: mujoco.MjModel, body: int) -> list[int]:
    """Return the geoms of a body that can collide."""
    first = int(model.body_geomadr[body])
    geoms = range(first, first + int(model.body_geomnum[body]))
    return [geom for geom in geoms if model.geom_contype[geom] or model.geom_conaffinity[geom]]


def smallest_gap(model: mujoco.MjModel, first: int, second: int) -> float:
    """Return the smallest distance of two bodies over the range of the joints between them."""
    joints = joints_between(model, first, second)
    assert joints and model.jnt_limited[joints].all()
    ranges = [model.jnt_range[joint] for joint in joints]
    grids = [np.linspace(low - BEYOND * (high - low), high + BEYOND * (high - low), POSITIONS) for low, high in ranges]
    data, gap = mujoco.MjData(model), np.inf
    for positions in itertools.product(*grids):
        data.qpos[model.jnt_qposadr[joints]] = positions
        mujoco.mj_kinematics(model, data)
        for one, other in itertools.product(geoms_of(model, first), geoms_of(model, second)):
            margin = float(model.geom_margin[one] + model.geom_margin[other])
            gap = min(gap, mujoco.mj_geomDistance(model, data, one, other, 1.0, None) - margin)
    return gap


@pytest.mark.parametrize("scene", SCENES)
def test_excluded_bodies_never_meet(scene: str) -> None:
    model = compile_scene(scene, "sawyer.xml")
    pairs = [(int(signature) >> 16, int(signature) & 0xFFFF) for signature in model.exclude_signature]
    # Meta-World also excludes the hand with its fingers, which do overlap.
    pairs = [pair for pair in pairs if model.body("right_hand").id not in pair]
    assert len(pairs) >= 4  # those of the fingers
    for first, second in pairs:
        assert smallest_gap(model, first, second) > 5e-4, (model.body(first).name, model.body(second).name)


def test_the_scenes_above_are_all_that_exclude_pairs() -> None:
    files = (resources.files("polytask.scenes") / "mjcf").iterdir()
    found = {file.name.removesuffix(".xml") for file in files if "<exclude" in file.read_text(encoding="utf-8")}
    assert found == {*SCENES, "sawyer", "panda"} - {"puck"}  # the puck stands for the Sawyer alone
