"""Pull up a handle that faces sideways."""

from __future__ import annotations

from torch import Tensor

from polytask.envs.manipulation.shared.caging import Cage
from polytask.envs.manipulation.shared.grasp import Grasp
from polytask.envs.manipulation.shared.handle import LOWERED, PULLED, place_handle, pull, pull_reward, raised_from, side
from polytask.envs.manipulation.shared.points import offset
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement, Slots, Start, Task
from polytask.sim.geometry import distance
from polytask.sim.view import SceneView

_RADIUS = 0.08
_GRIP = side(0.05, reach=0.17)  # centre of the lowered handle, relative to the box
_FINGERS = Cage(radius=0.032, pad=0.06, xz=0.01, density="high")
_GRASP = Grasp(effort=0.1, closed=0.77, gain=25.0)


def place(vector: Tensor) -> Placement:
    """Place the box with its handle lowered."""
    return place_handle(vector, side(PULLED), LOWERED, start=_GRIP)


def slots(scene: SceneView) -> Slots:
    """Return the middle of the handle."""
    return Slots(obj=scene.site("handleCenter"))


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward grasping the handle, and its closeness to the goal."""
    gap = distance(s.obj, s.target)
    lifted = s.obj[:, 2] - 0.01 > s.obj_init[:, 2]
    return pull_reward(s, gap, distance(s.obj_init, s.target), _FINGERS, lifted), gap <= _RADIUS


def expert(look: Look) -> Tensor:
    """Move down around the handle, close the fingers and pull it up."""
    return pull(look, offset(look.obj, z=0.03), _GRASP)


TASK = Task(
    name="handle-pull-side",
    summary="Pull a handle up that faces sideways.",
    success_rule="middle of the handle within 8 cm of the goal",
    start=Start((-0.35, 0.65, 0.0), (-0.25, 0.75, 0.0), place),
    shaped=Stages(
        bring("pull the handle up", within=_RADIUS),
        Hold((0.0, 0.004, 0.03), closed=0.82, empty=0.58, moved=raised_from(0.122)),
    ),
    scene="handle_side",
    slots=slots,
    reward=reward,
    expert=expert,
)
