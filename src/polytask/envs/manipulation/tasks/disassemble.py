"""Pull a nut off the peg it hangs on."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import tolerance
from polytask.envs.manipulation.shared.caging import Cage, cage, handle_point
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.nut import REACH, nut_slots
from polytask.envs.manipulation.shared.points import offset, planar_gap
from polytask.envs.manipulation.shared.straightness import straightness
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import HAND_BACK, Look, Placement, Separation, Start, Task
from polytask.sim.geometry import distance

_HANDLE = Cage(radius=0.015, pad=0.02, xz=0.01, density="high")


def place(vector: Tensor) -> Placement:
    """Place the nut with the peg in it; only the separation test uses the vector's second point."""
    nut = vector[:, 0:3]
    return Placement(
        target=offset(nut, z=0.15), obj_init=nut, fixtures={"peg": offset(nut, z=0.03)}, joints={"RoundNut": nut}
    )


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward gripping the handle and raising the ring, while the nut is straight."""
    ring = s.scene.site("RoundNut")
    raised = tolerance(distance(offset(s.target, z=0.1), ring), 0.0, 0.02, 0.2)
    placed = 0.1 * (ring[:, 2] > 0.02) + 0.9 * raised
    grasp, straight = cage(s, handle_point(s, REACH), _HANDLE), straightness(s.scene.body_quat("RoundNut"), 0.4)
    dense = (2 * grasp + 6 * placed) * straight
    success = s.obj[:, 2] > s.target[:, 2]
    return dense.masked_fill(success, 10.0), success


def expert(look: Look) -> Tensor:
    """Grip the handle from above, wait until the fingers have closed on it, and pull straight up."""
    handle = offset(look.obj, x=-0.02, z=0.01)
    beside = planar_gap(look.hand, handle) > 0.02
    height = (look.hand[:, 2] - handle[:, 2]).abs()
    waypoint = first_of(
        (beside, offset(handle, z=0.1)),
        # A hand that rises with open fingers slides up the handle and grips its upper edge.
        ((height > 0.03) | (look.openness > 0.6), handle),
        otherwise=offset(look.hand, z=0.1),
    )
    return act(look.hand, waypoint, gain=10.0, effort=torch.where(beside | (height > 0.07), 0.0, 0.8))


TASK = Task(
    name="disassemble",
    summary="Pull a nut off a peg.",
    success_rule="end of the handle more than 15 cm above the nut's start",
    start=Start(
        (0.0, 0.6, 0.025, -0.1, 0.6, 0.1699),
        (0.1, 0.75, 0.02501, 0.1, 0.75, 0.1701),
        place,
        Separation(0.1, candidates=48),
        hand=HAND_BACK,
    ),
    shaped=Stages(
        bring("pull it off the peg", within=0.0, along="z"), Hold((-0.013, 0.0, 0.033), closed=0.62, empty=0.38)
    ),
    scene="assembly",
    slots=nut_slots,
    reward=reward,
    expert=expert,
)
