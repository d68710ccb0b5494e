"""Reward primitives and the caging rewards built from them, checked against numbers computed by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import cast

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from polytask.envs.manipulation.rewards import hamacher, prism, tolerance
from polytask.envs.manipulation.shared.caging import Cage, LiveCage, cage, live_cage
from polytask.envs.manipulation.state import State
from polytask.sim.view import SceneView


def row(*values: float) -> Tensor:
    """Return one world's vector. (1, len(values))"""
    return torch.tensor([values])


def near(actual: Tensor, *expected: float) -> None:
    """Assert equality up to float32 rounding of the hand-computed digits."""
    assert_close(actual, torch.tensor(expected), atol=2e-6, rtol=0.0)


def test_tolerance_is_one_on_the_whole_interval() -> None:
    near(tolerance(torch.tensor([1.0, 1.5, 2.0]), 1.0, 2.0, 0.5), 1.0, 1.0, 1.0)


@pytest.mark.parametrize(("sigmoid", "halfway"), [("long_tail", 1 / 3.25), ("gaussian", 0.1**0.25)])
def test_tolerance_decays_alike_on_both_sides_to_a_tenth_at_the_margin(sigmoid: str, halfway: float) -> None:
    x = torch.tensor([0.0, 0.5, 2.5, 3.0])
    near(tolerance(x, 1.0, 2.0, 1.0, sigmoid=sigmoid), 0.1, halfway, halfway, 0.1)


def test_tolerance_without_margin_is_an_indicator() -> None:
    x = torch.tensor([0.9, 1.0, 2.1])
    near(tolerance(x, 1.0, 2.0, 0.0), 0.0, 1.0, 0.0)
    near(tolerance(x, 1.0, 2.0, torch.zeros(3)), 0.0, 1.0, 0.0)


def test_tolerance_takes_bounds_and_margins_per_world() -> None:
    margin, high = torch.tensor([0.0, 1.0, 2.0]), torch.tensor([1.0, 2.0, 2.0])
    near(tolerance(torch.tensor([3.0, 3.0, 3.0]), -math.inf, high, margin), 0.0, 0.1, 1 / 3.25)


def test_tolerance_refuses_an_unknown_sigmoid() -> None:
    with pytest.raises(ValueError, match="valid: long_tail, gaussian"):
        tolerance(torch.zeros(1), 0.0, 1.0, 1.0, sigmoid="linear")


def test_hamacher_product() -> None:
    a, b = torch.tensor([0.5, 1.0, 0.0, 0.0]), torch.tensor([0.5, 0.3, 0.7, 0.0])
    near(hamacher(a, b), 1 / 3, 0.3, 0.0, 0.0)
    assert_close(hamacher(a, b), hamacher(b, a))


def test_prism_ramps_from_corner_to_corner_and_is_one_outside() -> None:
    zero, one = row(0.0, 2.0, 0.0), row(1.0, 0.0, 4.0)  # the corners may be given in any order along an axis
    points = torch.tensor([[0.5, 1.0, 1.0], [0.0, 2.0, 0.0], [1.0, 0.0, 4.0], [1.1, 1.0, 1.0], [0.5, 1.0, -0.1]])
    near(prism(points, zero.expand(5, 3), one.expand(5, 3)), 0.0625, 0.0, 1.0, 1.0, 1.0)


OBJECT = row(0.0, 0.6, 0.02)
CAGE = Cage(radius=0.015, pad=0.05, xz=0.005)
LIVE = LiveCage(radius=0.015, pad=0.05, xz=0.005)


def state(left: float, right: float, tcp: Tensor = OBJECT, effort: float = 0.5) -> State:
    """Return a world whose object started at OBJECT, 15 cm below the hand's start, with pads at the given y."""
    return State(
        hand=tcp + row(0.0, 0.0, 0.045),
        openness=torch.ones(1),
        tcp=tcp,
        left_pad=row(0.0, left, 0.02),
        right_pad=row(0.0, right, 0.02),
        action=row(0.0, 0.0, 0.0, effort),
        vector=OBJECT,
        target=OBJECT,
        obj_init=OBJECT,
        tcp_init=row(0.0, 0.6, 0.17),
        scene=cast(SceneView, None),  # the caging rewards read no scene
        obj=OBJECT,
        first_obj=OBJECT,
    )


def test_cage_pays_for_effort_once_the_object_is_caged() -> None:
    s = state(left=0.64, right=0.56)
    near(cage(s, OBJECT, CAGE), 0.5)
    near(cage(s, OBJECT, replace(CAGE, density="high")), 0.75)
    near(cage(s, OBJECT, replace(CAGE, effort=0.4)), 1.0)  # more effort than needed earns no more
    near(cage(state(left=0.64, right=0.56, effort=-1.0), OBJECT, CAGE), 0.0)


def test_cage_of_medium_density_adds_reaching() -> None:
    s = state(left=0.64, right=0.56, tcp=row(0.0, 0.64, 0.02))
    # Reaching: 4 cm away, 1 cm is free, the margin is 15 - 1 cm.
    reached = 1 / (1 + 9 * (3 / 14) ** 2)
    near(cage(s, OBJECT, replace(CAGE, density="medium")), (0.5 + reached) / 2)


def test_cage_away_in_the_xz_plane_ignores_effort() -> None:
    s = state(left=0.64, right=0.56, tcp=row(0.08, 0.6, 0.02))
    met = 1 / (1 + 9 * (0.075 / 0.145) ** 2)
    near(cage(s, OBJECT, CAGE), 0.0)
    near(cage(s, OBJECT, replace(CAGE, density="high")), met / 2)


def test_cage_margins_come_from_the_reference_position() -> None:
    moved = row(0.0, 0.62, 0.02)
    s = state(left=0.70, right=0.58)
    # Left pad: 8 cm from the object, 3 cm too far; it is 10 cm from where the object started, so the margin is 5 cm.
    near(cage(s, moved, replace(CAGE, density="high")), 1 / (1 + 9 * 0.6**2) / 2)
    # With the object's current position as reference, the margin is these 3 cm.
    near(cage(s, moved, replace(CAGE, density="high"), reference=moved), 0.1 / 2)


def test_live_cage_pays_for_effort_once_the_object_is_caged() -> None:
    near(live_cage(state(left=0.64, right=0.56), OBJECT, LIVE), 0.75)


def test_live_cage_counts_a_pad_on_the_wrong_side_as_far() -> None:
    # Left gap -3 cm: 4.5 cm below the interval, with a margin of |3 - 5| cm.
    near(live_cage(state(left=0.57, right=0.56), OBJECT, LIVE), 1 / (1 + 9 * 2.25**2) / 2)


def test_live_cage_with_grip_pays_for_tight_pads_not_for_effort() -> None:
    grip = replace(LIVE, grip=0.02)
    near(live_cage(state(left=0.63, right=0.57, effort=-1.0), OBJECT, grip), 1.0)
    # Both gaps 4.5 cm: caged, but 1 cm wider than the grip allows, with margins of 0.5 cm.
    side = 1 / 37
    near(live_cage(state(left=0.645, right=0.555), OBJECT, grip), (1 + side / (2 - side)) / 2)
    # The gripping term is off if even a caged object does not exceed the threshold.
    near(live_cage(state(left=0.63, right=0.57), OBJECT, replace(grip, threshold=1.0)), 0.5)
