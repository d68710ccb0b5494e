"""Unlock a door by turning its lock up."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import tolerance
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.lock import HIGH, LOW, REACH, lock_slots, pivot
from polytask.envs.manipulation.shared.points import offset, planar_gap
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import BELOW_TABLE, Look, Placement, Slots, Start, Task
from polytask.sim.geometry import distance
from polytask.sim.view import SceneView

_LOCKED = 1.5708  # angle of the lock, pointing down
_HOLD = Hold((-0.035, -0.025, -0.04), side="the front", reach=0.06, depth=0.05)


def place(vector: Tensor) -> Placement:
    """Place the door, locked."""
    axis = pivot(vector)
    return Placement(
        target=offset(axis, x=0.1, y=-0.04),
        obj_init=axis,
        fixtures={"door": vector},
        joints={"lock_link": torch.full_like(vector[:, 0], _LOCKED)},
    )


def slots(scene: SceneView) -> Slots:
    """Return the lower edge of the lock's tip."""
    return lock_slots(scene, "lockStartUnlock")


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward a hand in front of and below the lock, and turning the lock up."""
    scale, shift = s.constant(*REACH), s.constant(0.0, 0.055, 0.07)
    margin = distance(scale * (s.tcp_init + shift), scale * s.obj_init)
    ready = tolerance(distance(scale * (s.hand + shift), scale * s.obj), 0.0, 0.02, margin)
    left = (s.target[:, 0] - s.obj[:, 0]).abs()
    return 2 * ready + 8 * tolerance(left, 0.0, 0.005, 0.1), left <= 0.02


def expert(look: Look) -> Tensor:
    """Go down in front of the door, then to the lock's tip, and push it sideways and up."""
    hand, lock = look.hand, offset(look.obj, x=-0.04, y=-0.02, z=-0.03)
    beside = planar_gap(hand, lock) > 0.02
    waypoint = first_of(
        (beside & (hand[:, 2] > 0.15), offset(hand, y=-0.1, z=-0.1)),
        (beside, lock),
        otherwise=offset(lock, x=0.1, z=0.01),
    )
    return act(hand, waypoint, gain=25.0, effort=1.0)


TASK = Task(
    name="door-unlock",
    summary="Unlock a door by turning its lock up.",
    success_rule="lock's tip within 2 cm of the goal along x",
    start=Start(LOW, HIGH, place),
    shaped=Stages(bring("turn the lock up", within=0.02, along="x"), _HOLD),
    scene="door_lock",
    slots=slots,
    reward=reward,
    expert=expert,
    hand_low=BELOW_TABLE,
)
