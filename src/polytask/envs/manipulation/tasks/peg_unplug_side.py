"""Pull a plug sideways out of its socket."""

from __future__ import annotations

from torch import Tensor

from polytask.envs.manipulation.rewards import tolerance
from polytask.envs.manipulation.shared.caging import Cage, cage
from polytask.envs.manipulation.shared.grasp import Grasp, grasp_and_carry
from polytask.envs.manipulation.shared.points import offset
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement, Slots, Start, Task
from polytask.sim.geometry import distance
from polytask.sim.view import SceneView, constant

_SOCKET = 0.131  # height of the socket's axis
_PLUG, _END, _PULLED = ((x, 0.0, _SOCKET) for x in (0.044, 0.084, 0.194))  # plug, its end and the goal, from the box
_RADIUS, _PAID_RADIUS = 0.07, 0.05
_FINGERS = Cage(radius=0.025, pad=0.05, xz=0.005, effort=0.8, density="high")
_GRASP = Grasp(effort=0.8, closed=0.92, slack=0.006)


def place(vector: Tensor) -> Placement:
    """Place the socket with the plug in it."""
    return Placement(
        target=vector + constant(_PULLED, vector),
        obj_init=vector + constant(_END, vector),
        fixtures={"box": vector},
        joints={"plug1": vector + constant(_PLUG, vector)},
    )


def slots(scene: SceneView) -> Slots:
    """Return the plug's free end and its orientation, scalar first."""
    return Slots(obj=scene.site("pegEnd"), obj_quat=scene.body_quat("plug1"))


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward grasping the plug and, once it has moved in the hand, bringing it to the goal."""
    gap = distance(s.obj, s.target)
    in_place = tolerance(gap, 0.0, _PAID_RADIUS, distance(s.obj_init, s.target))
    moved = (s.openness > 0.5) & (s.obj[:, 0] - s.obj_init[:, 0] > 0.015)
    held = moved & (distance(s.obj, s.tcp) < 0.035)
    paid = 2 * cage(s, s.obj, _FINGERS) + held * (1 + 5 * in_place)
    return paid.masked_fill(gap <= _PAID_RADIUS, 10.0), gap <= _RADIUS


def expert(look: Look) -> Tensor:
    """Move down onto the plug, grip it lightly and pull it straight to the goal."""
    grip = offset(look.obj, x=-0.025, z=0.03)
    return grasp_and_carry(look, grip, look.hand + (look.goal - look.obj).clamp(-0.1, 0.1), _GRASP)


TASK = Task(
    name="peg-unplug-side",
    summary="Pull a plug sideways out of its socket.",
    success_rule="end of the plug within 7 cm of the goal",
    start=Start((-0.25, 0.6, -0.001), (-0.15, 0.8, 0.001), place),
    shaped=Stages(bring("pull the plug to the goal", within=0.07), Hold((-0.015, 0.0, 0.028), closed=0.9, empty=0.7)),
    scene="peg_unplug",
    slots=slots,
    reward=reward,
    expert=expert,
)
