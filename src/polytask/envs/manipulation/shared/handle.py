"""Shared code of the four tasks with a sliding handle.

The handle slides up and down in front of a box that faces the robot or sideways.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import hamacher, tolerance
from polytask.envs.manipulation.shared.caging import Cage, cage
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.grasp import Grasp, grasp_and_carry
from polytask.envs.manipulation.shared.points import at_height, offset, planar_gap
from polytask.envs.manipulation.stages import Measure
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement, Slots
from polytask.sim.geometry import distance
from polytask.sim.view import SceneView, constant

Point = tuple[float, float, float]

FRONT_LOW, FRONT_HIGH = (-0.1, 0.8, -0.001), (0.1, 0.9, 0.001)  # where the box that faces the robot may stand
PRESSED, PULLED = 0.075, 0.172  # height of the two goals above the table
RAISED, LOWERED = -0.001, -0.1  # joint positions that the handle starts from
_REACH = 0.216  # distance of the goals from the box's axis
_YAW = 1.57  # of the box that faces sideways, rad
_TRAVEL = 0.096  # from the pressed goal up to the handle's start
_PRESS_RADIUS, _PULL_RADIUS, _HELD = 0.02, 0.05, 0.035
_LEAD = 0.018  # how far ahead of a held handle the fingers may pull


def front(z: float, reach: float = _REACH) -> Point:
    """Return a point `reach` in front of the box that faces the robot, relative to the box."""
    return 0.0, -reach, z


def side(z: float, reach: float = _REACH) -> Point:
    """Return the same point for the box that faces sideways."""
    return reach * math.sin(_YAW), -reach * math.cos(_YAW), z


def place_handle(vector: Tensor, goal: Point, joint: float, start: Point = (0.0, 0.0, 0.0)) -> Placement:
    """Put the box at `vector` (N, 3); the goal and the initial object position of rewards are relative to it."""
    return Placement(
        target=vector + constant(goal, vector),
        obj_init=vector + constant(start, vector),
        fixtures={"box": vector},
        joints={"handle_link": torch.full_like(vector[:, 0], joint)},
    )


def top_slots(scene: SceneView) -> Slots:
    """Return the top of the handle."""
    return Slots(obj=scene.site("handleStart"))


def press_reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward touching the handle, combined with its height."""
    gap = (s.obj[:, 2] - s.target[:, 2]).abs()
    in_place = tolerance(gap, 0.0, _PRESS_RADIUS, _TRAVEL - _PRESS_RADIUS)
    start = s.target + s.constant(0.0, 0.0, _TRAVEL)
    margin = (distance(start, s.tcp_init) - _PRESS_RADIUS).abs()
    reach = tolerance(distance(s.obj, s.tcp), 0.0, _PRESS_RADIUS, margin)
    pressed = gap <= _PRESS_RADIUS
    return (10 * hamacher(reach, in_place)).masked_fill(pressed, 10.0), pressed


def pull_reward(s: State, gap: Tensor, margin: float | Tensor, fingers: Cage, lifted: Tensor | None = None) -> Tensor:
    """Reward grasping the handle and, once it is held, bringing it to the goal.

    Args:
        s: State of the worlds.
        gap: Distance to the goal. (N,)
        margin: Gap at the start of the episode.
        fingers: Parameters of caging the handle.
        lifted: Whether the handle counts as lifted, (N,) bool; default is always.
    """
    in_place = tolerance(gap, 0.0, _PULL_RADIUS, margin)
    held = distance(s.obj, s.tcp) < _HELD
    held = held if lifted is None else held & lifted
    paid = hamacher(cage(s, s.obj, fingers), in_place) + held * (1 + 5 * in_place)
    return paid.masked_fill(gap < _PULL_RADIUS, 10.0)


def raised_from(gap: float) -> Measure:
    """Return the measure of whether a handle that starts `gap` below its goal is 1 cm higher. (N,) bool"""
    return lambda s: s.target[:, 2] - s.obj[:, 2] < gap - 0.01


def press(look: Look, handle: Tensor, effort: float) -> Tensor:
    """Return the action (N, 4) that moves above a point of the handle and pushes it down to the goal, no further."""
    aside = planar_gap(look.hand, handle) > 0.02
    # The handle follows the hand: move by the remaining distance, so that the hand slows down in time.
    down = at_height(handle, look.hand[:, 2] + look.goal[:, 2] - look.obj[:, 2])
    return act(look.hand, first_of((aside, offset(handle, z=0.2)), otherwise=down), gain=10.0, effort=effort)


def pull(look: Look, grip: Tensor, g: Grasp) -> Tensor:
    """Return the action (N, 4) that grasps the handle at `grip` and pulls it to the goal's height.

    The handle slips in the fingers, so they must not move far ahead of it.
    """
    lift = (look.goal[:, 2] - look.obj[:, 2]).clamp(-_LEAD, _LEAD)
    return grasp_and_carry(look, grip, at_height(grip, grip[:, 2] + lift), g)
