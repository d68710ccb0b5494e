"""Shared code of the tasks with a plate: a square plate on two slides and a goal cage."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import tolerance
from polytask.envs.manipulation.shared.expert import act, from_above
from polytask.envs.manipulation.shared.points import at_height
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Slots
from polytask.sim.geometry import distance
from polytask.sim.view import SceneView, constant

_RADIUS = 0.05


def plate_slots(scene: SceneView) -> Slots:
    """Return the plate's position and its orientation, scalar last; it never turns on its slides."""
    plate = scene.body("puck")
    return Slots(obj=plate, obj_quat=constant((0.0, 0.0, 0.0, 1.0), plate).expand(len(plate), 4))


def slides(vector: Tensor, x: float = 0.0, y: float = 0.0) -> dict[str, Tensor]:
    """Return the joints that put the plate (x, y) away from (0, 0.6)."""
    first = vector[:, 0]
    return {"goal_slidex": torch.full_like(first, x), "goal_slidey": torch.full_like(first, y)}


def plate_reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward reaching the plate and, once the fingertips are beside it on the table, its closeness to the goal."""
    gap, reach = distance(s.obj, s.target), distance(s.obj, s.tcp)
    in_place = tolerance(gap, 0.0, _RADIUS, distance(s.obj_init, s.target) - _RADIUS)
    near = tolerance(reach, 0.0, _RADIUS, distance(s.tcp_init, s.obj_init) - _RADIUS)
    is_down = (s.tcp[:, 2] <= 0.03) & (reach < 0.07)
    paid = torch.where(is_down, 2 + 7 * in_place, 1.5 * near)
    return torch.where(gap < _RADIUS, 10.0, paid), gap <= 0.07


def drag(look: Look, spot: Tensor, clearance: float, effort: float) -> Tensor:
    """Return the action (N, 4) that presses the fingers on a spot of the plate and drags it to the goal."""
    onwards = at_height(look.hand + look.goal - look.obj, look.hand[:, 2])
    waypoint = from_above(look.hand, spot, slack=(0.01, 0.04), clearance=clearance, then=onwards)
    return act(look.hand, waypoint, gain=10.0, effort=effort)
