"""Success by the simulator's state, for evaluation and for the stand-in of a labelling person only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.errors import require_known
from polytask.mtopt.tasks import KINDS
from polytask.mtopt.world.layout import LEFT_BIN, LIFTED, PLATE_RADIUS, RESTING
from polytask.sim.view import constant

_RED = ("can", "sausage")
_LID_REACH = 0.06  # half width of the lid


@dataclass(frozen=True)
class Situation:
    """Places of the objects after the hand has presented the outcome."""

    objects: Tensor  # (N, 7, 3) centres, in the order of KINDS
    plate_yaw: Tensor  # (N,)
    lid: Tensor | None = None  # (N, 3) centre of the lid, where there is one


def lifted(situation: Situation) -> Tensor:
    """Return which objects (N, 7) are held up."""
    return situation.objects[..., 2] > LIFTED


def plate_place(situation: Situation) -> Tensor:
    """Return the objects' places (N, 7, 2) in the plate's frame: x to the right, y towards the two small sections."""
    offset = situation.objects[..., :2] - constant(LEFT_BIN, situation.objects)
    cosine, sine = situation.plate_yaw.cos()[:, None], situation.plate_yaw.sin()[:, None]
    x, y = offset.unbind(-1)
    return torch.stack([cosine * x + sine * y, cosine * y - sine * x], -1)


def on_plate(situation: Situation) -> Tensor:
    """Return which objects (N, 7) lie on the plate."""
    is_near = torch.linalg.vector_norm(plate_place(situation), dim=-1) < PLATE_RADIUS
    return is_near & (situation.objects[..., 2] < RESTING)


def _lift(kinds: Sequence[str]) -> Callable[[Situation], Tensor]:
    index = [KINDS.index(kind) for kind in kinds]
    return lambda situation: torch.stack([lifted(situation)[:, i] for i in index], -1).any(-1)


def _place(right: bool | None, top: bool) -> Callable[[Situation], Tensor]:
    """Make the grader of an object in the named half planes of the plate's frame; None names both halves."""

    def grade(situation: Situation) -> Tensor:
        x, y = plate_place(situation).unbind(-1)
        inside = on_plate(situation) & ((y > 0) == top)
        if right is not None:
            inside = inside & ((x > 0) == right)
        return inside.any(-1)

    return grade


def _place_any(situation: Situation) -> Tensor:
    """Grade an object on the plate and an empty hand, as the task's sentence says."""
    holds = lifted(situation).any(-1)
    if situation.lid is not None:
        holds = holds | (situation.lid[:, 2] > LIFTED)
    return on_plate(situation).any(-1) & ~holds


def _cover(situation: Situation) -> Tensor:
    """Grade a released lid above the centre of an object on the plate."""
    objects, lid = situation.objects, situation.lid
    if lid is None:
        return torch.zeros_like(situation.plate_yaw, dtype=torch.bool)
    is_under = ((objects[..., :2] - lid[:, None, :2]).abs() < _LID_REACH).all(-1) & (objects[..., 2] < lid[:, None, 2])
    return (is_under & on_plate(situation)).any(-1) & (lid[:, 2] < LIFTED)


GRADERS: dict[str, Callable[[Situation], Tensor]] = {
    "lift-any": _lift(KINDS),
    **{f"lift-{kind}": _lift((kind,)) for kind in KINDS},
    "place-any": _place_any,
    "place-bottom": _place(None, False),
    "place-top-left": _place(False, True),
    "place-top-right": _place(True, True),
    "lift-red-thing": _lift(_RED),
    "lift-any-two": lambda situation: lifted(situation).sum(-1) >= 2,
    "place-banana": lambda situation: on_plate(situation)[:, KINDS.index("banana")],
    "cover-object": _cover,
}


def grade(situation: Situation, tasks: Sequence[str]) -> Tensor:
    """Grade all worlds on the named tasks: (N, K) bool."""
    return torch.stack([GRADERS[require_known("task", task, GRADERS)](situation) for task in tasks], -1)
