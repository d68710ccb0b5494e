"""Shared code of the two tasks with the faucet, which mirror each other."""

from __future__ import annotations

from torch import Tensor

from polytask.envs.manipulation.rewards import tolerance
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.points import offset, planar_gap
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement, Slots
from polytask.sim.geometry import distance
from polytask.sim.view import SceneView

_RADIUS = 0.07


def place_faucet(vector: Tensor, side: float) -> Placement:
    """Place the faucet with its handle towards the robot and the goal on `side`, +1 right or -1 left."""
    return Placement(target=offset(vector, x=0.175 * side, z=0.125), obj_init=vector, fixtures={"faucetBase": vector})


def faucet_slots(scene: SceneView, tip: str) -> Slots:
    """Return a point 1 cm below the named site at the handle's tip, and the constant orientation of the base."""
    return Slots(obj=offset(scene.site(tip), z=-0.01), obj_quat=scene.body_quat("faucetBase"))


def faucet_reward(s: State, tip: Tensor) -> tuple[Tensor, Tensor]:
    """Reward closeness of the tool centre to the handle's tip and of the tip to the goal.

    Both margins are measured from the faucet's base on the table, not from the handle.
    """
    gap = distance(tip, s.target)
    in_place = tolerance(gap, 0.0, _RADIUS, (distance(s.obj_init, s.target) - _RADIUS).abs())
    margin = (distance(s.obj_init, s.tcp_init) - 0.01).abs()
    near = tolerance(distance(tip, s.tcp), 0.0, 0.01, margin, sigmoid="gaussian")
    success = gap <= _RADIUS
    return (4 * near + 6 * in_place).masked_fill(success, 10.0), success


def turn_handle(look: Look, side: float) -> Tensor:
    """Move down beside the handle with closed fingers and push it towards `side`, +1 right or -1 left."""
    beside = offset(look.obj, x=-0.04 * side, z=0.03)
    waypoint = first_of(
        (planar_gap(look.obj, look.goal) < 0.05, offset(beside, y=-0.04)),
        (planar_gap(look.hand, beside) > 0.04, offset(beside, z=0.1)),
        ((look.hand[:, 2] - beside[:, 2]).abs() > 0.04, beside),
        otherwise=offset(beside, x=0.1 * side, y=0.05),
    )
    return act(look.hand, waypoint, gain=25.0, effort=1.0)
