"""Push an open drawer shut."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import hamacher, tolerance
from polytask.envs.manipulation.shared.drawer import HIGH, LOW, handle
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.points import at_height, offset
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement, Slots, Start, Task
from polytask.sim.geometry import distance
from polytask.sim.view import SceneView

_RADIUS = 0.05
_HOLD = Hold((0.003, -0.022, -0.028), side="the front", slack=0.04, reach=0.04)


def place(vector: Tensor) -> Placement:
    """Place the drawer, 15 cm open."""
    return Placement(
        target=offset(vector, y=-0.16, z=0.09),
        obj_init=offset(vector, y=-0.32, z=0.14),
        fixtures={"drawer": vector},
        joints={"goal_slidey": torch.full_like(vector[:, 0], -0.15)},
    )


def slots(scene: SceneView) -> Slots:
    """Return a point 5 cm above the handle, and no orientation."""
    return Slots(obj=handle(scene, above=0.05))


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward a closing gripper at the handle, combined with the handle's closeness to the goal."""
    gap = distance(s.obj, s.target)
    in_place = tolerance(gap, 0.0, _RADIUS, (distance(s.obj_init, s.target) - _RADIUS).abs())
    margin = (distance(s.obj_init, s.tcp_init) - 0.005).abs()
    near = tolerance(distance(s.obj, s.tcp), 0.0, 0.005, margin, sigmoid="gaussian")
    dense = 10 * hamacher(hamacher(near, s.effort.clamp(0.0, 1.0)), in_place)
    # On the shut drawer this point is still 5 cm above the goal, hence the slack.
    success = gap <= _RADIUS + 0.015
    return torch.where(success, 10.0, dense), success


def expert(look: Look) -> Tensor:
    """Rise, move to the front of the handle, go down and push."""
    handle = offset(look.obj, z=-0.02)
    is_behind = look.hand[:, 1] > handle[:, 1]
    height = look.hand[:, 2] - handle[:, 2]
    waypoint = first_of(
        (is_behind & (height < 0.23), at_height(look.hand, handle[:, 2] + 0.5)),
        (is_behind, offset(handle, y=-0.075, z=0.23)),
        (height.abs() > 0.04, offset(handle, y=-0.075)),
        otherwise=handle,
    )
    return act(look.hand, waypoint, gain=25.0, effort=1.0)


TASK = Task(
    name="drawer-close",
    summary="Push the open drawer shut.",
    success_rule="point above the handle within 6.5 cm of the goal, i.e. at most 3 cm open",
    start=Start(LOW, HIGH, place),
    shaped=Stages(bring("push the drawer shut", within=0.065), _HOLD),
    scene="drawer",
    slots=slots,
    reward=reward,
    expert=expert,
)
