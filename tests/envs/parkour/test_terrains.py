"""A robot can stand on every waypoint of every tile, and the path to it is as hard as in the benchmark."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from polytask.envs.parkour.course import PIT, Course, Tile
from polytask.envs.parkour.tasks import NUM_LEVELS, TASKS

STEP = 0.025  # metres between the sampled points of a path
FOOTING = np.linspace(-0.2, 0.2, 9)  # metres beside the straight line where feet may find ground

# Longest gap and highest step up, in metres, that the original's parameters allow on the first and last level. Slopes
# are not steps. Gaps are measured along the line between waypoints, so a gap crossed at an angle counts as longer.
ALLOWED = {
    "box-climb": ((0.0, 0.0), (0.35, 0.73)),
    "lipped-ramp": ((0.0, 0.0), (0.25, 0.33)),
    "lipped-dome": ((0.0, 0.0), (0.40, 0.81)),
    "plain-ramp": ((0.0, 0.0), (0.03, 0.04)),
    "a-frame": ((0.0, 0.0), (0.06, 0.07)),
    "dome": ((0.0, 0.0), (0.12, 0.30)),
    "even-gaps": ((0.40, 0.80), (0.0, 0.0)),
    "uneven-gaps": ((0.40, 0.80), (0.09, 0.17)),
    "round-pads": ((0.35, 1.05), (0.19, 0.28)),
    "domed-pads": ((0.10, 0.70), (0.25, 0.28)),
    "side-slopes": ((0.20, 0.85), (0.06, 0.50)),
    "round-stones": ((0.10, 0.25), (0.03, 0.07)),
    "scattered-stones": ((0.15, 0.20), (0.0, 0.0)),
    "wide-stairs": ((0.0, 0.0), (0.16, 0.28)),
    "narrow-stairs": ((0.0, 0.0), (0.05, 0.22)),
    "block-climb": ((0.0, 0.0), (0.34, 0.52)),
    "spiral-stairs": ((0.0, 0.0), (0.11, 0.26)),
    "squeeze": ((0.0, 0.0), (0.0, 0.0)),
    "poles": ((0.0, 0.0), (0.0, 0.0)),
    "beam": ((0.0, 0.0), (0.0, 0.0)),
    "flat": ((0.0, 0.0), (0.0, 0.0)),
}


def ground(tile: Tile, points: np.ndarray) -> np.ndarray:
    """Return the height of the ground below points (..., 2)."""
    column = np.clip((points[..., 0] / 0.05 + 1e-6).astype(int), 0, 359)
    row = np.clip(((points[..., 1] + 2) / 0.05 + 1e-6).astype(int), 0, 79)
    return tile.height[column, row]


def way(tile: Tile, start: np.ndarray, stop: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ground heights along the line between two waypoints, and the highest ones beside it."""
    length = float(np.linalg.norm(stop - start))
    along = (stop - start) / length
    points = start + np.arange(0.0, length, STEP)[:, None] * along
    beside = points[:, None] + FOOTING[:, None] * np.array([-along[1], along[0]])
    return ground(tile, points), ground(tile, beside).max(-1)


def longest_gap(footing: np.ndarray) -> float:
    best = run = 0
    for missing in footing <= PIT:
        run = run + 1 if missing else 0
        best = max(best, run)
    return best * STEP


def highest_step(line: np.ndarray) -> float:
    """Return the largest rise from one piece of ground to the next, over a gap if there is one."""
    solid = line[line > PIT]
    return float(np.diff(solid).max(initial=0.0))


@pytest.mark.parametrize("name", TASKS)
def test_every_waypoint_can_be_reached(name: str) -> None:
    gaps, steps = ALLOWED[name]
    for level in range(NUM_LEVELS):
        share = level / (NUM_LEVELS - 1)
        tile = TASKS[name].tile(level, share)
        points = np.concatenate([[[1.0, 0.0]], tile.goals])
        assert (points[:, 0] >= 0.4).all()
        assert (points[:, 0] <= 17.6).all()
        assert (np.abs(points[:, 1]) <= 1.6).all()
        around = points[:, None] + np.stack(np.meshgrid(FOOTING, FOOTING), -1).reshape(1, -1, 2) / 2
        assert (ground(tile, around).max(-1) > -0.2).all()  # ground within 10 cm
        for start, stop in pairwise(points):
            line, footing = way(tile, start, stop)
            assert longest_gap(footing) <= gaps[0] + share * (gaps[1] - gaps[0]) + 1e-6, (level, start, stop)
            assert highest_step(line) <= steps[0] + share * (steps[1] - steps[0]) + 1e-3, (level, start, stop)


@pytest.mark.parametrize("name", [name for name in TASKS if name != "flat"])
def test_levels_differ_and_a_tile_is_always_the_same(name: str) -> None:
    task = TASKS[name]
    first, last = task.tile(0, 0.0), task.tile(9, 1.0)
    assert not np.array_equal(first.height, last.height)
    again = Course(np.random.default_rng((task.number, 9)))
    task.build(again, task.difficulty[1])
    again.walls()
    assert np.array_equal(again.tile().height, last.height)
    if name not in ("poles", "beam"):  # these have no random parts
        assert not np.array_equal(task.tile(0, 1.0).height, last.height)


def test_last_pole_keeps_its_goal_inside_the_tile() -> None:
    """The original has the last waypoint of its first levels at 20.05 m and 19 m, behind the wall at 17.9 m."""
    for level in range(NUM_LEVELS):
        tile = TASKS["poles"].tile(level, level / 9)
        assert tile.goals[-1, 0] <= 17.3
        poles = tile.pos[tile.size[:, 0] == np.float32(0.15), :2]
        assert np.linalg.norm(poles - tile.goals[-1], axis=-1).min() > 0.4
