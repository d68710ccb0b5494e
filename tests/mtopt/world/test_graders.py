"""Truth on hand-placed objects."""

import math

import pytest
import torch

from polytask.errors import UserError
from polytask.mtopt.tasks import KINDS, TASKS
from polytask.mtopt.world.graders import GRADERS, Situation, grade

LEFT, FLOOR, UP = (-0.165, 0.6), 0.02, 0.33


def situation(places, yaw=0.0, lid=None):
    """One world whose objects lie in the right bin but for those in `places`."""
    objects = torch.tensor([[[0.165, 0.6, FLOOR]] * len(KINDS)])
    for kind, place in places.items():
        objects[0, KINDS.index(kind)] = torch.tensor(place)
    return Situation(objects, torch.tensor([yaw]), None if lid is None else torch.tensor([lid]))


def successes(state):
    return {task for task, value in zip(TASKS, grade(state, tuple(TASKS))[0].tolist(), strict=True) if value}


def test_every_task_has_a_grader():
    assert GRADERS.keys() == TASKS.keys()


def test_nothing_is_achieved_while_all_lie_in_their_bin():
    assert successes(situation({})) == set()


@pytest.mark.parametrize("kind", KINDS)
def test_a_lift_counts_for_its_kind_alone(kind):
    red = {"lift-red-thing"} if kind in ("can", "sausage") else set()
    assert successes(situation({kind: (0.1, 0.52, UP)})) == {"lift-any", f"lift-{kind}"} | red


def test_two_lifted_at_once():
    state = situation({"milk": (0.1, 0.52, UP), "carrot": (0.12, 0.52, UP)})
    assert successes(state) == {"lift-any", "lift-milk", "lift-carrot", "lift-any-two"}


@pytest.mark.parametrize(
    ("offset", "section"),
    [((0.0, -0.05), "place-bottom"), ((-0.05, 0.05), "place-top-left"), ((0.05, 0.05), "place-top-right")],
)
@pytest.mark.parametrize("yaw", [0.0, 1.0, math.pi, -2.5])
def test_sections_turn_with_the_plate(offset, section, yaw):
    x, y = offset
    turned = (math.cos(yaw) * x - math.sin(yaw) * y, math.sin(yaw) * x + math.cos(yaw) * y)
    state = situation({"can": (LEFT[0] + turned[0], LEFT[1] + turned[1], FLOOR)}, yaw)
    assert successes(state) == {"place-any", section}


def test_an_object_held_above_the_plate_is_not_placed():
    assert successes(situation({"can": (*LEFT, 0.2)})) == set()


def test_an_object_beside_the_plate_is_not_placed():
    assert successes(situation({"can": (LEFT[0] + 0.11, LEFT[1], FLOOR)})) == set()


def test_place_any_asks_for_an_empty_hand_as_its_sentence_does():
    assert TASKS["place-any"].sentence.endswith("the hand is empty.")
    placed = {"can": (LEFT[0], LEFT[1] - 0.05, FLOOR)}
    assert "place-any" in successes(situation(placed))
    assert "place-any" not in successes(situation(placed | {"milk": (0.1, 0.52, UP)}))
    assert "place-bottom" in successes(situation(placed | {"milk": (0.1, 0.52, UP)})), "its sentence does not ask"
    assert "place-any" not in successes(situation(placed, lid=(LEFT[0], LEFT[1], UP)))


def test_place_banana_asks_for_the_banana():
    assert "place-banana" in successes(situation({"banana": (LEFT[0], LEFT[1] - 0.05, FLOOR)}))


def test_cover_needs_the_lid_above_an_object_on_the_plate():
    on_plate = {"box": (LEFT[0] + 0.03, LEFT[1], FLOOR)}
    assert "cover-object" in successes(situation(on_plate, lid=(LEFT[0], LEFT[1], 0.045)))
    assert "cover-object" not in successes(situation(on_plate, lid=(LEFT[0] - 0.05, LEFT[1], 0.045)))  # beside it
    assert "cover-object" not in successes(situation(on_plate, lid=(LEFT[0], LEFT[1], 0.005)))  # under it
    assert "cover-object" not in successes(situation(on_plate, lid=(LEFT[0], LEFT[1], UP)))  # still in the hand
    assert "cover-object" not in successes(situation(on_plate))  # no lid in this scene


def test_an_unknown_task_is_named():
    with pytest.raises(UserError, match="unknown task 'lift-elephant'"):
        grade(situation({}), ("lift-elephant",))
