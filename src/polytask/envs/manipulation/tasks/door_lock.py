"""Lock a door by turning its lock down."""

from __future__ import annotations

from torch import Tensor

from polytask.envs.manipulation.rewards import hamacher, tolerance
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.lock import HIGH, LOW, REACH, lock_slots, pivot
from polytask.envs.manipulation.shared.points import offset, planar_gap
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import BELOW_TABLE, Look, Placement, Slots, Start, Task
from polytask.sim.geometry import distance
from polytask.sim.view import SceneView


def place(vector: Tensor) -> Placement:
    """Place the door, unlocked."""
    axis = pivot(vector)
    return Placement(target=offset(axis, y=-0.04, z=-0.1), obj_init=axis, fixtures={"door": vector})


def slots(scene: SceneView) -> Slots:
    """Return the upper edge of the lock's tip."""
    return lock_slots(scene, "lockStartLock")


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward the open left finger near the lock, and turning the lock down."""
    reach = distance(s.obj, s.left_pad, s.constant(*REACH))
    # The margin is the current distance, not the initial one, as in the original.
    near = tolerance(reach, 0.0, 0.01, reach)
    left = (s.target[:, 2] - s.obj[:, 2]).abs()
    return 2 * hamacher(s.openness, near) + 8 * tolerance(left, 0.0, 0.005, 0.1), left <= 0.02


def expert(look: Look) -> Tensor:
    """Rise in front of the door, move down onto the lock's tip and follow it down and towards its axis."""
    hand, lock = look.hand, offset(look.obj, x=-0.02, y=-0.02)
    gap = planar_gap(hand, lock)
    turning = look.obj[:, 2] - look.goal[:, 2] < 0.1
    beside = (gap > 0.08) | ((gap > 0.02) & ~turning)
    waypoint = first_of(
        (beside & (hand[:, 2] < 0.25), offset(hand, y=-0.1, z=0.1)),
        (beside, offset(lock, z=0.15)),
        ((hand[:, 2] - lock[:, 2]).abs() > 0.02, lock),
        otherwise=offset(lock, x=-0.1, z=-0.1),
    )
    return act(hand, waypoint, gain=25.0, effort=-1.0)


TASK = Task(
    name="door-lock",
    summary="Lock a door by turning its lock down.",
    success_rule="lock's tip within 2 cm of the goal's height",
    start=Start(LOW, HIGH, place),
    shaped=Stages(
        bring("turn the lock down", within=0.02, along="z"), Hold((-0.018, -0.022, 0.048), slack=0.03, reach=0.05)
    ),
    scene="door_lock",
    slots=slots,
    reward=reward,
    expert=expert,
    hand_low=BELOW_TABLE,
)
