"""Pull up a handle that faces the robot."""

from __future__ import annotations

from torch import Tensor

from polytask.envs.manipulation.shared.caging import Cage
from polytask.envs.manipulation.shared.grasp import Grasp
from polytask.envs.manipulation.shared.handle import (
    FRONT_HIGH,
    FRONT_LOW,
    LOWERED,
    PULLED,
    front,
    place_handle,
    pull,
    pull_reward,
    raised_from,
)
from polytask.envs.manipulation.shared.points import offset
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement, Slots, Start, Task
from polytask.sim.view import SceneView

_RADIUS = 0.05
_FINGERS = Cage(radius=0.022, pad=_RADIUS, xz=0.01, density="high")
_GRASP = Grasp(effort=0.1, closed=0.57, gain=25.0)


def place(vector: Tensor) -> Placement:
    """Place the box with its handle lowered."""
    return place_handle(vector, front(PULLED), LOWERED)


def slots(scene: SceneView) -> Slots:
    """Return the right end of the handle."""
    return Slots(obj=scene.site("handleRight"))


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward grasping the handle, and its height."""
    gap = (s.target[:, 2] - s.obj[:, 2]).abs()
    # The original also requires a lifted handle, but compares a y with a z: its test always holds.
    return pull_reward(s, gap, PULLED, _FINGERS), gap <= _RADIUS


def expert(look: Look) -> Tensor:
    """Move down around the handle's end, close the fingers and pull it up."""
    return pull(look, offset(look.obj, z=0.01), _GRASP)


TASK = Task(
    name="handle-pull",
    summary="Pull a handle up.",
    success_rule="end of the handle within 5 cm of the goal's height",
    start=Start(FRONT_LOW, FRONT_HIGH, place),
    shaped=Stages(
        bring("pull the handle up", within=_RADIUS, along="z"),
        Hold((0.0, 0.0, 0.012), closed=0.62, empty=0.34, moved=raised_from(0.108)),
    ),
    scene="handle",
    slots=slots,
    reward=reward,
    expert=expert,
)
