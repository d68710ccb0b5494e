"""Shapes have the correct height, and a course turns them into slots and a raster."""

from __future__ import annotations

import math

import numpy as np
import pytest

from polytask.envs.parkour.course import GOALS, PIT, RASTER, SLOTS, Course, raster
from polytask.envs.parkour.shapes import Shape


def course() -> Course:
    return Course(np.random.default_rng(0))


def height(c: Course, x: float, y: float) -> float:
    """Return the height of the raster at a point on whole cells."""
    return float(raster(c.shapes)[round(x / 0.05), round((y + 2) / 0.05)])


def test_block_is_as_high_as_asked_up_to_its_edges_and_the_pit_lies_around_it() -> None:
    c = course()
    c.block((2.0, 3.0), (-0.5, 0.5), 0.3)
    for x, y in ((2.0, 0.0), (3.0, 0.0), (2.5, 0.5), (2.5, -0.5), (2.5, 0.1)):
        assert height(c, x, y) == pytest.approx(0.3)
    for x, y in ((1.95, 0.0), (3.05, 0.0), (2.5, 0.55), (2.5, -0.55)):
        assert height(c, x, y) == PIT


def test_ramp_rises_evenly_and_ends_in_a_drop() -> None:
    c = course()
    c.ground(0.0, 18.0)
    c.ramp((2.0, 3.0), (-0.5, 0.5), 0.0, 0.38)  # reaches its top one cell before its end
    for x in (2.1, 2.5, 2.95):
        assert height(c, x, 0.0) == pytest.approx(0.4 * (x - 2.0), abs=1e-5)
    assert height(c, 3.0, 0.2) == pytest.approx(0.38, abs=1e-5)
    assert height(c, 3.05, 0.2) == 0.0


def test_side_slope_rises_across_the_way() -> None:
    c = course()
    c.slab((2.0, 3.0), (-0.5, 0.5), 0.0, 0.3, along_y=True)
    assert height(c, 2.5, 0.0) == pytest.approx(0.15, abs=1e-5)
    assert height(c, 2.2, 0.25) == pytest.approx(0.225, abs=1e-5)


def test_cap_has_the_width_and_height_asked_for() -> None:
    c = course()
    c.ground(0.0, 18.0)
    c.cap(5.0, 0.0, radius=0.5, top=0.25)
    sphere = (0.5**2 + 0.25**2) / 0.5
    assert height(c, 5.0, 0.0) == pytest.approx(0.25, abs=1e-6)
    assert height(c, 5.3, 0.0) == pytest.approx(0.25 - sphere + math.sqrt(sphere**2 - 0.09), abs=1e-6)
    assert height(c, 5.55, 0.0) == 0.0


def test_pole_ends_round_at_its_top() -> None:
    c = course()
    c.pole(5.0, 0.0, radius=0.15, top=1.0)
    assert height(c, 5.0, 0.0) == pytest.approx(1.0)
    assert height(c, 5.1, 0.0) == pytest.approx(0.85 + math.sqrt(0.15**2 - 0.1**2))
    assert height(c, 5.2, 0.0) == PIT


@pytest.mark.parametrize("boxes", [3, 4])
def test_disc_has_the_area_of_its_circle(boxes: int) -> None:
    c = course()
    c.disc(5.0, 0.0, 0.8, 0.1, boxes=boxes)
    fine = np.stack(np.meshgrid(np.linspace(4, 6, 401), np.linspace(-1, 1, 401), indexing="ij"))
    covered = np.max([shape.height(*fine) for shape in c.shapes], axis=0) > 0
    assert covered.mean() * 4 == pytest.approx(math.pi * 0.8**2, rel=0.01)
    assert len(c.shapes) == boxes


def test_a_turned_box_is_cut_where_its_faces_are() -> None:
    quarter = Shape("box", (0.0, 0.0, 0.0), (1.0, 0.2, 0.5), (math.cos(math.pi / 8), 0.0, 0.0, math.sin(math.pi / 8)))
    x, y = np.array([[0.5, 0.5]]), np.array([[0.5, -0.5]])  # along the box, which points to 45 degrees, and across it
    assert quarter.height(x, y).tolist() == [[0.5, -math.inf]]


def test_tile_fills_slots_in_order_and_parks_the_rest() -> None:
    c = course()
    c.floor()
    for x in (9.0, 5.0):
        c.block((x, x + 1.0), (-0.5, 0.5), 0.2)
    for _ in range(GOALS - 1):
        c.goal(3.0, 0.0)
    tile = c.tile()
    assert tile.pos.shape == (sum(SLOTS.values()), 3)
    assert tile.pos[:4, 0].tolist() == [5.5, 9.0, 9.5, 0.0]  # the floor is in the middle; unused shapes follow
    assert (tile.pos[3:, 2] == -50).all()
    assert tile.height.shape == RASTER


def test_too_many_shapes_or_too_few_goals_are_errors() -> None:
    c = course()
    with pytest.raises(ValueError, match="8 goals, not 0"):
        c.tile()
    c.goals = [(1.0, 0.0)] * GOALS
    for _ in range(SLOTS["capsule"] + 1):
        c.pole(5.0, 0.0, 0.1, 1.0)
    with pytest.raises(ValueError, match="7 shapes of kind capsule do not fit"):
        c.tile()
