"""The height scan is correct on tiles whose height is known everywhere."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from polytask.envs.parkour.tasks import TASKS
from polytask.envs.parkour.tiles import SCAN, Tiles

CPU = torch.device("cpu")
# The benchmark's points in front of the robot and to its left, in metres.
AHEAD = tuple(round(-0.45 + 0.15 * index, 2) for index in range(12))
LEFT = tuple(round(-0.75 + 0.15 * index, 2) for index in range(11))


@pytest.fixture(scope="module")
def tiles() -> Tiles:
    return Tiles.build([TASKS[name] for name in ("narrow-stairs", "flat", "beam")], "hard", CPU)


def points(x: float, y: float, yaw: float) -> list[tuple[float, float]]:
    """Return the points of the scan by definition, x outer and y inner."""
    cosine, sine = math.cos(yaw), math.sin(yaw)
    return [(x + cosine * a - sine * b, y + sine * a + cosine * b) for a in AHEAD for b in LEFT]


def test_scan_has_twelve_points_ahead_by_eleven_across(tiles: Tiles) -> None:
    assert SCAN == 132
    assert (AHEAD[0], AHEAD[-1], LEFT[0], LEFT[-1]) == (-0.45, 1.2, -0.75, 0.75)
    assert torch.equal(tiles.offsets, torch.cartesian_prod(torch.tensor(AHEAD), torch.tensor(LEFT)))


def test_stairs_look_like_stairs(tiles: Tiles) -> None:
    """The steps of narrow-stairs on its last level: tread 0.45 m, width 0.55 m, with a pit on both sides."""
    tile = TASKS["narrow-stairs"].tile(9, 1.0)
    steps = np.isclose(tile.size[:, 0], 0.225)
    tops = (tile.pos + tile.size)[steps, 2]
    edges = [2.0 + 0.45 * step for step in range(7)]
    position, yaw = torch.tensor([[2.51, 0.012, 0.5]]), 0.1
    seen = tiles.scan(torch.tensor([9]), position, torch.tensor([yaw]))[0]
    for height, (x, y) in zip(seen.tolist(), points(2.51, 0.012, yaw), strict=True):
        nearest = min(abs(x - edge) for edge in edges)
        if nearest < 0.055 or abs(abs(y) - 0.275) < 0.08:
            continue  # within a cell of an edge the scan gives the lower side
        if x < 2.0:
            assert height == pytest.approx(0.0)
        elif abs(y) > 0.275:
            assert height == pytest.approx(-1.0)
        else:
            assert height == pytest.approx(float(tops[int((x - 2.0) / 0.45)]), abs=1e-6)


def test_flat_ground_is_flat_and_walls_stand_around_it(tiles: Tiles) -> None:
    middle = tiles.scan(torch.tensor([13]), torch.tensor([[9.0, 0.3, 0.4]]), torch.tensor([2.0]))
    assert_close(middle, torch.zeros(1, SCAN))
    corner = tiles.scan(torch.tensor([13]), torch.tensor([[17.5, 1.6, 0.4]]), torch.tensor([0.0]))[0].view(12, 11)
    assert_close(corner[-1], torch.full((11,), 0.495))  # 1.2 m ahead is beyond the end
    assert_close(corner[0, 8:], torch.full((3,), 0.495))  # 0.45 m to the left is beyond the side
    assert_close(corner[0, :6], torch.zeros(6))


def test_every_world_sees_its_own_tile(tiles: Tiles) -> None:
    """Side by side: flat ground, and a beam over a pit (0.35 m wide on the last level)."""
    position = torch.tensor([[5.0, 0.0, 0.3]]).expand(2, -1)
    flat, beam = tiles.scan(torch.tensor([10, 29]), position, torch.zeros(2)).view(2, 12, 11)
    assert_close(flat, torch.zeros(12, 11))
    assert_close(beam[:, 5], torch.zeros(12))
    assert_close(beam[:, :4], torch.full((12, 4), -1.0))
    assert_close(beam[:, 7:], torch.full((12, 4), -1.0))


def test_the_lower_neighbour_counts() -> None:
    """Near an edge, the scan gives the lowest of a sample and its next neighbours."""
    tiles = Tiles.build([TASKS["block-climb"]], "hard", CPU)
    x = torch.tensor([1.96, 2.01, 2.06])  # the first block begins at 2.0
    seen = tiles.ground_at(torch.tensor(0), x, torch.zeros(3))
    top = float(TASKS["block-climb"].tile(0, 0.0).height[45, 40])
    assert_close(seen, torch.tensor([0.0, top, top]))


def test_after_the_last_goal_comes_the_last_goal(tiles: Tiles) -> None:
    tile, index = torch.tensor([10, 10, 10]), torch.tensor([6, 7, 8])
    goals = tiles.goal(tile, index)
    assert_close(goals[1], goals[2])
    assert not torch.equal(goals[0], goals[1])


def test_easy_has_ten_variants_of_the_lowest_difficulty_and_flat_is_flat_for_every_task() -> None:
    easy = Tiles.build([TASKS["block-climb"]], "easy", CPU)
    tops = easy.ground.max(1).values
    assert len(tops.unique()) == 10
    assert (tops < 6 * 0.34 + 1e-6).all()
    flat = Tiles.build([TASKS["block-climb"]], "flat", CPU)
    assert_close(flat.ground.unflatten(1, (360, 80))[:, 3:-3, 3:-3].abs().max(), torch.tensor(0.0))
