"""Pick up a peg and push it sideways into a hole."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import hamacher, prism, tolerance
from polytask.envs.manipulation.shared.caging import Cage, cage
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.points import offset, planar_gap
from polytask.envs.manipulation.stages import Hold, Stages, line_up
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement, Separation, Slots, Start, Task
from polytask.sim.geometry import distance, wxyz_to_xyzw
from polytask.sim.view import SceneView

_RADIUS = 0.07
_CAGE = Cage(radius=0.0075, pad=0.03, xz=0.005, density="high")
_HEAD_INIT = (-0.1, 0.6, 0.0147847)  # the peg's head in the settled scene, before the peg is placed


def place(vector: Tensor) -> Placement:
    """Place the peg, and the box with the hole."""
    return Placement(
        target=offset(vector[:, 3:6], x=0.03, z=0.13),
        obj_init=vector[:, 0:3],
        fixtures={"box": vector[:, 3:6]},
        joints={"peg": vector[:, 0:3]},
    )


def slots(scene: SceneView) -> Slots:
    """Return the grasp point of the peg and its orientation, scalar last."""
    return Slots(obj=scene.site("pegGrasp"), obj_quat=wxyz_to_xyzw(scene.body_quat("peg")))


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward grasping the peg, and closeness of its head to the hole on a path around the box's front."""
    head = s.scene.site("pegHead")
    # Errors across the hole weigh twice as much as errors along it.
    weight = s.constant(1.0, 2.0, 2.0)
    gap = distance(head, s.target, weight)
    margin = distance(s.constant(*_HEAD_INIT), s.target, weight)
    below, over = (
        prism(head, s.scene.site(f"bottom_right_corner_{box}"), s.scene.site(f"top_left_corner_{box}"))
        for box in ("collision_box_1", "collision_box_2")
    )
    in_place = hamacher(tolerance(gap, 0.0, _RADIUS, margin), hamacher(over, below))
    is_lifted = s.obj[:, 2] - 0.01 > s.obj_init[:, 2]
    is_held = (distance(s.obj, s.tcp) < 0.08) & (s.openness > 0) & is_lifted
    grasped = torch.where(is_held, 1.0, cage(s, s.obj, _CAGE))
    dense = hamacher(grasped, in_place) + is_held * (1 + 5 * in_place)
    success = gap <= _RADIUS
    return torch.where(success, 10.0, dense), success


def expert(look: Look) -> Tensor:
    """Grasp the peg from above, lift it in front of the hole and push it in."""
    is_away = planar_gap(look.hand, look.obj) > 0.04
    height = look.hand[:, 2] - look.obj[:, 2]
    inserted = offset(look.goal, x=0.13, z=0.01)  # of the grasp point, which lies behind and above the head
    is_off = distance(look.obj[:, 1:], inserted[:, 1:]) > 0.012
    # The peg slips between the fingers, so the hand corrects the error of the peg and not its own.
    in_hand = look.hand - look.obj
    waypoint = first_of(
        (is_away, offset(look.obj, z=0.3)),
        ((height > 0.05) | (look.openness > 0.45), look.obj),
        (is_off, offset(inserted, x=0.17) + in_hand),
        otherwise=inserted + in_hand,
    )
    return act(look.hand, waypoint, gain=25.0, effort=torch.where(is_away | (height > 0.15), -1.0, 0.6))


def _beside_hole(s: State) -> Tensor:
    """Return the distance of the peg's head from the axis of the hole. (N,)"""
    return distance(s.scene.site("pegHead")[:, 1:], s.target[:, 1:])


def _before_hole(s: State) -> Tensor:
    return distance(s.scene.site("pegHead"), s.target)


TASK = Task(
    name="peg-insert-side",
    summary="Pick up the peg and insert it sideways into the hole.",
    success_rule="peg's head within 7 cm of the hole, errors across the hole counting double",
    start=Start((0.0, 0.5, 0.02, -0.35, 0.4, -0.001), (0.2, 0.7, 0.02, -0.25, 0.7, 0.001), place, Separation(0.1)),
    shaped=Stages(
        line_up(
            "head level with the hole", _beside_hole, slack=0.025, then="push it in", rest=_before_hole, within=0.06
        ),
        Hold((0.006, 0.0, 0.025), closed=0.45, empty=0.18),
    ),
    scene="peg_insert",
    slots=slots,
    reward=reward,
    expert=expert,
)
