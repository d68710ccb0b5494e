"""Take a hammer and drive a nail into a block."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import tolerance
from polytask.envs.manipulation.shared.caging import Cage, cage, handle_point
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.points import offset, planar_gap
from polytask.envs.manipulation.shared.straightness import straightness
from polytask.envs.manipulation.stages import Hold, Stages, line_up
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import HAND_BACK, Look, Placement, Slots, Start, Task
from polytask.sim.geometry import distance
from polytask.sim.view import SceneView, constant

_NAILED = (0.24, 0.74, 0.11)  # position of the hammer's head when the nail is in
_DRIVEN = 0.09  # travel of a driven nail
_HANDLE_HALF_LENGTH = 0.07  # the handle may be gripped this far from its middle, on both sides
_FINGERS = Cage(radius=0.015, pad=0.02, xz=0.01, density="high")


def place(vector: Tensor) -> Placement:
    """Put the hammer at the vector's position."""
    return Placement(target=constant(_NAILED, vector).expand_as(vector), obj_init=vector, joints={"hammerbody": vector})


def slots(scene: SceneView) -> Slots:
    """Return the hammer and the nail with their orientations, scalar first."""
    return Slots(
        obj=scene.body("hammer"),
        obj_quat=scene.body_quat("hammer"),
        obj2=scene.body("nail_link"),
        obj2_quat=scene.body_quat("nail_link"),
    )


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward an upright grasp, and closeness of the head to the driven nail."""
    upright = straightness(s.scene.body_quat("hammer"), 0.4, start=(1.0, 0.0, 0.0, 0.0))
    # Any point of the handle may be gripped: the one under the hand counts.
    grasp = cage(s, handle_point(s, _HANDLE_HALF_LENGTH), _FINGERS)
    # The head's offset is not rotated with the hammer.
    head = offset(s.obj, x=0.16, y=0.06)
    in_place = 0.1 * (head[:, 2] > 0.02) + 0.9 * tolerance(distance(head, s.target), 0.0, 0.02, 0.2)
    paid = (2 * grasp + 6 * in_place) * upright
    driven = s.scene.joint("NailSlideJoint") > _DRIVEN
    return paid.masked_fill(driven & (paid > 5), 10.0), driven


def expert(look: Look) -> Tensor:
    """Grasp the handle near its middle, lift it beside the nail and strike."""
    grip, strike = offset(look.obj, x=-0.04, z=-0.01), constant((0.065, 0.7, 0.155), look.hand)
    aside = planar_gap(look.hand, grip) > 0.04
    height = (look.hand[:, 2] - grip[:, 2]).abs()
    low = (height > 0.05) & (grip[:, 2] < 0.03)
    away = torch.hypot(look.hand[:, 0] - strike[0], look.hand[:, 2] - strike[2]) > 0.02
    level = torch.stack([strike[0].expand_as(height), look.hand[:, 1], strike[2].expand_as(height)], -1)
    waypoint = first_of((aside, offset(grip, z=0.1)), (low, offset(grip, z=0.03)), (away, level), otherwise=strike)
    return act(look.hand, waypoint, gain=10.0, effort=torch.where(aside | (height > 0.1), 0.0, 0.8))


def _head(s: State) -> Tensor:
    # Not rotated with the hammer, as in the reward.
    return offset(s.obj, x=0.16, y=0.06)


def _beside_line(s: State) -> Tensor:
    """Return the distance of the head from the line along which it must strike. (N,)"""
    return distance(_head(s)[:, ::2], s.target[:, ::2])


def _before_nail(s: State) -> Tensor:
    return distance(_head(s), s.target)


TASK = Task(
    name="hammer",
    summary="Drive a nail into a block with a hammer.",
    success_rule="nail driven in by more than 9 cm",
    start=Start((-0.1, 0.4, 0.0), (0.1, 0.5, 0.0), place, hand=HAND_BACK),
    shaped=Stages(
        line_up("head level with the nail", _beside_line, slack=0.04, then="strike", rest=_before_nail, within=0.03),
        Hold((-0.033, 0.0, 0.037), closed=0.6, empty=0.4),
    ),
    scene="hammer",
    slots=slots,
    reward=reward,
    expert=expert,
)
