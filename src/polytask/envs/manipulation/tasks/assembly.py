"""Pick up a nut by its handle and put its ring over a peg."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import tolerance
from polytask.envs.manipulation.shared.caging import Cage, cage, handle_point
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.funnel import funnel
from polytask.envs.manipulation.shared.nut import REACH, nut_slots
from polytask.envs.manipulation.shared.points import at_height, offset, planar_gap
from polytask.envs.manipulation.shared.straightness import straightness
from polytask.envs.manipulation.stages import Hold, Stages, carry_over
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement, Separation, Start, Task

_HANDLE = Cage(radius=0.015, pad=0.02, xz=0.01, density="medium")
_THREADED = 0.02  # the ring's centre is this close to the peg's axis when the peg is inside


def place(vector: Tensor) -> Placement:
    """Place the nut, and the peg so that its top is the goal."""
    nut, top = vector[:, 0:3], vector[:, 3:6]
    return Placement(target=top, obj_init=nut, fixtures={"peg": offset(top, z=-0.05)}, joints={"RoundNut": nut})


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward gripping the handle and moving the ring down a funnel onto the peg, while the nut is straight."""
    ring = s.scene.site("RoundNut")
    error = s.target - ring
    radius = torch.linalg.vector_norm(error[:, :2], dim=-1)
    success = (radius < _THREADED) & (error[:, 2] > 0)
    # The hole of the funnel is 1 cm wide and opens to 2 cm once the ring is on, so that the ring need not stay centred.
    hole = 0.01 + 0.01 * success
    above = 3 * (funnel(radius, hole, steepness=0.02, level=0.2) - ring[:, 2])
    lifted = (ring[:, 2] > 0.02) | (radius < hole)
    placed = 0.1 * lifted + 0.9 * tolerance(torch.hypot(radius, above), 0.0, 0.02, 0.4)
    grasp, straight = cage(s, handle_point(s, REACH), _HANDLE), straightness(s.scene.body_quat("RoundNut"), 0.4)
    dense = (2 * grasp + 6 * placed) * straight
    return dense.masked_fill(success, 10.0), success


def expert(look: Look) -> Tensor:
    """Grip the handle from above, lift, carry the ring over the peg and press down."""
    handle = offset(look.obj, x=-0.02)
    above_peg = offset(look.goal, x=0.12, z=0.14)
    beside = planar_gap(look.hand, handle) > 0.02
    height = (look.hand[:, 2] - handle[:, 2]).abs()
    waypoint = first_of(
        (beside, offset(handle, z=0.1)),
        (planar_gap(look.hand, above_peg) <= 0.02, offset(above_peg, z=-0.2)),
        (height > 0.05, offset(handle, z=0.03)),
        ((look.hand[:, 2] - above_peg[:, 2]).abs() > 0.04, at_height(look.hand, above_peg[:, 2])),
        otherwise=above_peg,
    )
    return act(look.hand, waypoint, gain=10.0, effort=torch.where(beside | (height > 0.12), 0.0, 0.6))


def _ring(s: State) -> Tensor:
    return s.scene.site("RoundNut")


def _on_peg(s: State) -> Tensor:
    return offset(s.target, z=-0.02)


TASK = Task(
    name="assembly",
    summary="Put the ring of a nut over a peg.",
    success_rule="ring centre within 2 cm of the peg's axis and below its top",
    start=Start((0.0, 0.6, 0.02, -0.1, 0.75, 0.1), (0.0, 0.6, 0.02, 0.1, 0.85, 0.1), place, Separation(0.1)),
    shaped=Stages(
        carry_over("put its ring over the peg", level=0.13, hole=_THREADED, within=0.015, point=_ring, goal=_on_peg),
        Hold((-0.014, 0.0, 0.045), closed=0.62, empty=0.38),
    ),
    scene="assembly",
    slots=nut_slots,
    reward=reward,
    expert=expert,
)
