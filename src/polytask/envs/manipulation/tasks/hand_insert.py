"""Put a block into a hole of the table."""

from __future__ import annotations

from torch import Tensor

from polytask.envs.manipulation.rewards import hamacher, tolerance
from polytask.envs.manipulation.shared.caging import Cage, cage
from polytask.envs.manipulation.shared.expert import first_of
from polytask.envs.manipulation.shared.free_object import free_object_slots, place_object_and_goal
from polytask.envs.manipulation.shared.grasp import Grasp, grasp_and_carry
from polytask.envs.manipulation.shared.points import at_height, offset, planar_gap
from polytask.envs.manipulation.stages import Hold, Stages, carry_over
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import BELOW_TABLE, Look, Separation, Start, Task
from polytask.sim.geometry import distance

_RADIUS = 0.05
_FINGERS = Cage(radius=0.015, pad=0.05, xz=0.005, density="high")
_GRASP = Grasp(effort=0.3, closed=0.53)
_HOLD = Hold((0.004, 0.004, 0.028), closed=0.58, empty=0.28)


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward grasping the block and, once it is held, bringing it to the goal."""
    gap = distance(s.obj, s.target)
    in_place = tolerance(gap, 0.0, _RADIUS, distance(s.obj_init, s.target))
    held = distance(s.obj, s.tcp) < 0.02
    paid = hamacher(cage(s, s.obj, _FINGERS), in_place) + held * (1 + 7 * in_place)
    return paid.masked_fill(gap < _RADIUS, 10.0), gap <= _RADIUS


def expert(look: Look) -> Tensor:
    """Grasp the block, carry it over the hole and lower it."""
    away = planar_gap(look.hand, look.goal) > 0.02
    carry = first_of((away, at_height(look.goal, 0.15)), otherwise=offset(look.goal, z=0.04))
    return grasp_and_carry(look, offset(look.obj, z=0.03), carry, _GRASP)


TASK = Task(
    name="hand-insert",
    summary="Put a block into a hole of the table.",
    success_rule="block within 5 cm of the goal in the hole",
    start=Start(
        # The block starts 2 cm inside the raised table top, as in the original, and is pushed out.
        (-0.1, 0.6, 0.05, -0.04, 0.8, -0.0201),
        (0.1, 0.7, 0.05, 0.04, 0.88, -0.0199),
        place_object_and_goal,
        Separation(0.15),
    ),
    shaped=Stages(carry_over("bring it into the hole", level=0.1, hole=_RADIUS, within=_RADIUS), _HOLD),
    scene="hole_table",
    slots=free_object_slots,
    reward=reward,
    expert=expert,
    hand_low=BELOW_TABLE,
)
