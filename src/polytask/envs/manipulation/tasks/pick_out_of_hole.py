"""Pick a puck out of a hole and bring it to a point in space."""

from __future__ import annotations

from torch import Tensor

from polytask.envs.manipulation.rewards import hamacher, tolerance
from polytask.envs.manipulation.shared.caging import Cage, cage
from polytask.envs.manipulation.shared.free_object import free_object_slots, place_object_and_goal
from polytask.envs.manipulation.shared.funnel import above_funnel, funnel
from polytask.envs.manipulation.shared.grasp import Grasp, grasp_and_carry
from polytask.envs.manipulation.shared.points import offset, planar_gap
from polytask.envs.manipulation.stages import Hold, Stages, carry_over
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Separation, Start, Task
from polytask.sim.geometry import distance

_RADIUS, _PAID_RADIUS = 0.07, 0.05
_SHAFT = 0.03  # radius around the puck's start in which the fingers may be low
_FINGERS = Cage(radius=0.015, pad=0.02, xz=0.03, effort=0.1, density="high")
_GRASP = Grasp(effort=0.15, closed=0.56)
_HOLD = Hold((0.0, 0.005, 0.026), closed=0.6, empty=0.28)


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward grasping the puck and, once it is lifted, bringing it to the goal clear of the hole's rim."""
    gap = distance(s.obj, s.target)
    in_place = tolerance(gap, 0.0, 0.02, distance(s.obj_init, s.target))
    lifted = s.obj[:, 2] - 0.02 > s.obj_init[:, 2]
    held = (distance(s.obj, s.tcp) < 0.04) & lifted & (s.openness >= 0.33)
    floor = funnel(planar_gap(s.tcp, s.obj_init), hole=_SHAFT, steepness=0.015, level=0.15)
    clear = above_funnel(s.tcp, floor, 0.02)
    paid = hamacher(cage(s, s.obj, _FINGERS), in_place) + held * (1 + 5 * hamacher(in_place, clear))
    return paid.masked_fill(gap < _PAID_RADIUS, 10.0), gap <= _RADIUS


def expert(look: Look) -> Tensor:
    """Grasp the puck and carry it directly to the goal, without lifting it first."""
    return grasp_and_carry(look, offset(look.obj, z=0.02), offset(look.goal, z=0.02), _GRASP)


TASK = Task(
    name="pick-out-of-hole",
    summary="Pick a puck out of a hole and bring it to a goal position.",
    success_rule="puck within 7 cm of the goal",
    start=Start(
        (0.0, 0.75, 0.02, -0.1, 0.5, 0.15), (0.0, 0.75, 0.02, 0.1, 0.6, 0.3), place_object_and_goal, Separation(0.15)
    ),
    shaped=Stages(carry_over("puck to the goal", level=0.1, hole=0.0, within=0.07), _HOLD),
    scene="hole_block",
    slots=free_object_slots,
    reward=reward,
    expert=expert,
    hand_low=(-0.5, 0.4, -0.05),
)
