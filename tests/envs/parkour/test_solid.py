"""Obstacles are solid: no leg gets into them from the side, and none of them comes out of the tile."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from polytask.envs.parkour.course import WALL_FACE, WIDTH, Course
from polytask.envs.parkour.shapes import BOX, CAPSULE, Shape
from polytask.envs.parkour.tasks import NUM_LEVELS, TASKS

LEG = 0.026  # metres: thickness of a calf, the thinnest part of the robot


def course_of(name: str, level: int) -> Course:
    task = TASKS[name]
    course = Course(np.random.default_rng((task.number, level)))
    first, last = task.difficulty
    task.build(course, first + level / (NUM_LEVELS - 1) * (last - first))
    return course


def is_inside(shape: Shape, points: np.ndarray) -> np.ndarray:
    own = (points - np.array(shape.pos)) @ shape.matrix
    if shape.kind == BOX:
        return (np.abs(own) <= np.array(shape.size) + 1e-6).all(-1)
    half = shape.size[1] if shape.kind == CAPSULE else 0.0
    own[..., 2] -= np.clip(own[..., 2], -half, half)
    return np.linalg.norm(own, axis=-1) <= shape.size[0]


def hollow(course: Course) -> float:
    """Return the height of the highest space below a surface, over points of all obstacles."""
    x, y = np.meshgrid(np.arange(2.0, 14.0, 0.07), np.arange(-1.4, 1.4, 0.1), indexing="ij")
    top = np.max([shape.height(x, y) for shape in course.shapes], axis=0)
    empty, step = np.zeros_like(x), 0.01
    for z in np.arange(-0.2, top.max(), step):
        points = np.stack([x, y, np.full_like(x, z)], -1)
        covered = np.any([is_inside(shape, points) for shape in course.shapes], axis=0)
        empty += step * ((z < top - 0.002) & ~covered)
    return float(empty.max())


@pytest.mark.parametrize("name", ["a-frame", "plain-ramp", "lipped-ramp", "side-slopes", "spiral-stairs", "domed-pads"])
def test_no_leg_fits_under_a_surface(name: str) -> None:
    assert max(hollow(course_of(name, level)) for level in (0, 4, 9)) < LEG


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_roof_has_the_heights_it_was_given_up_to_a_rounder_ridge(share: float) -> None:
    course = Course(np.random.default_rng(0))
    low, high, length = 0.05, 0.05 + 0.35 + 0.22 * share, 0.9 - 0.4 * share  # the steepest is above 45 degrees
    course.roof((2.0, 2.0 + length, 2.0 + 2 * length), (-0.5, 0.5), low, high)
    x = np.linspace(2.001, 1.999 + 2 * length, 200)[:, None]
    found = np.max([shape.height(x, np.zeros_like(x)) for shape in course.shapes], axis=0)
    wanted = high - np.abs(x - 2.0 - length) / length * (high - low)
    assert (found >= wanted - 1e-6).all()
    assert (found <= wanted + 0.0201).all()


@pytest.mark.parametrize("level", range(NUM_LEVELS))
def test_no_step_of_the_spiral_pierces_the_wall(level: int) -> None:
    for shape in course_of("spiral-stairs", level).shapes:
        if shape.pos[0] != 9.0:  # the floor
            assert abs(shape.pos[1]) + shape.reach[1] <= WALL_FACE + 1e-9


def test_domed_pads_stand_in_the_pit() -> None:
    for level in (0, 9):
        pillars = [shape for shape in course_of("domed-pads", level).shapes if shape.kind == CAPSULE]
        assert len(pillars) == 6
        for shape in pillars:
            radius, half, _ = shape.size
            assert shape.pos[2] - half <= -2.0 + 1e-9  # where the straight side ends, below the bottom of the pit
            assert 0.05 < shape.pos[2] + half + radius < 0.2  # the top
            assert abs(shape.pos[1]) + radius < WIDTH / 2


def test_a_robot_beside_a_frame_touches_it_and_does_not_enter() -> None:
    """A calf that lies along x is pushed out of every place below the roof."""
    tile = TASKS["a-frame"].tile(9, 1.0)
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody>"
        + "".join(
            f'<geom type="box" pos="{" ".join(map(str, pos))}" quat="{" ".join(map(str, quat))}" '
            f'size="{" ".join(map(str, size))}"/>'
            for pos, quat, size in zip(tile.pos[:44], tile.quat[:44], tile.size[:44], strict=True)
        )
        + '<body name="calf"><freejoint/><geom type="capsule" size="0.013 0.05" euler="0 90 0"/></body>'
        "</worldbody></mujoco>"
    )
    data = mujoco.MjData(model)
    ridge, middle = tile.goals[1]
    column, row = round(float(ridge) / 0.05), round((float(middle) + 2) / 0.05)
    for offset in (-0.3, -0.2, -0.1, 0.1, 0.2, 0.3):
        height = float(tile.height[column + round(offset / 0.05), row])
        for z in np.arange(0.1, height - 0.03, 0.02):
            data.qpos[:3] = ridge + offset, middle, z
            mujoco.mj_forward(model, data)
            assert data.ncon > 0, (offset, z)
