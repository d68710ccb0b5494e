"""Shared code of the two tasks with the round nut: observation slots and grip point."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Slots
from polytask.sim.view import SceneView

_SNAP = 0.01  # the hand may grip the handle this far from its end along x without losing reward


def nut_slots(scene: SceneView) -> Slots:
    """Return the end of the handle and the nut's orientation."""
    return Slots(obj=scene.site("RoundNut-8"), obj_quat=scene.body_quat("RoundNut"))


def handle_point(s: State) -> Tensor:
    """Return the point to grip (N, 3): the end of the handle, with the x of the hand if that is near."""
    end, hand = s.obj[:, 0], s.hand[:, 0]
    x = torch.where((end - hand).abs() < _SNAP, hand, end)
    return torch.cat([x[:, None], s.obj[:, 1:]], -1)
