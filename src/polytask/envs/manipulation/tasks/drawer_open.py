"""Pull a drawer open by its handle."""

from __future__ import annotations

from torch import Tensor

from polytask.envs.manipulation.rewards import tolerance
from polytask.envs.manipulation.shared.drawer import HIGH, LOW, handle
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.points import offset, planar_gap
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement, Slots, Start, Task
from polytask.sim.geometry import distance
from polytask.sim.view import SceneView


def place(vector: Tensor) -> Placement:
    """Place the drawer, which is shut in the settled scene."""
    return Placement(target=offset(vector, y=-0.36, z=0.09), obj_init=vector, fixtures={"drawer": vector})


def slots(scene: SceneView) -> Slots:
    """Return the handle's position and the drawer's orientation, scalar first."""
    return Slots(obj=handle(scene), obj_quat=scene.body_quat("drawer_link"))


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward closeness of the hand to the handle, and of the handle to the goal."""
    gap = distance(s.obj, s.target)
    opened = tolerance(gap, 0.0, 0.02, 0.2)
    # Sideways errors of the hand weigh three times as much as height errors.
    weight = s.constant(3.0, 3.0, 1.0)
    hand_gap = distance(s.obj, s.hand, weight)
    margin = distance(offset(s.target, y=0.2), s.tcp_init, weight)
    return 5 * (tolerance(hand_gap, 0.0, 0.01, margin) + opened), gap <= 0.03


def expert(look: Look) -> Tensor:
    """Move down behind the handle with open fingers, then pull hard: the goal lies past the drawer's soft stop."""
    handle = offset(look.obj, z=-0.02)
    return first_of(
        (planar_gap(look.hand, handle) > 0.06, act(look.hand, offset(handle, z=0.3), gain=4.0, effort=-1.0)),
        ((look.hand[:, 2] - handle[:, 2]).abs() > 0.04, act(look.hand, handle, gain=4.0, effort=-1.0)),
        otherwise=act(look.hand, offset(handle, y=-0.06), gain=50.0, effort=-1.0),
    )


TASK = Task(
    name="drawer-open",
    summary="Pull the drawer open by its handle.",
    success_rule="handle within 3 cm of the goal",
    start=Start(LOW, HIGH, place),
    shaped=Stages(bring("pull the drawer open", within=0.03), Hold((0.0, -0.02, -0.016), away=0.15, hooks=True)),
    scene="drawer",
    slots=slots,
    reward=reward,
    expert=expert,
)
