"""The state that a task reads: robot, scene and constants of the episode, for N worlds at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from polytask.sim.view import SceneView, constant


@dataclass
class State:
    """State of N worlds of one task at one time.

    The robot part is the same for every robot, so a task works with every robot.

    Attributes:
        hand: Position of the hand, clipped as in the observation. (N, 3)
        openness: Distance of the fingers, 0 closed to 1 fully open. (N,)
        tcp: Point midway between the fingertips. (N, 3)
        left_pad: Position of the left finger's pad. (N, 3)
        right_pad: Position of the right finger's pad. (N, 3)
        action: Action that led here, in [-1, 1]; the last entry is the gripper effort, positive closes. (N, 4)
        vector: Random vector that placed the episode. (N, R)
        target: Goal position. (N, 3)
        obj_init: Object position at the start of the episode. (N, 3)
        tcp_init: `tcp` at the start of the episode. (N, 3)
        scene: Named poses and joints of the scene.
        obj: Position of the first object, as in the observation. (N, 3)
        first_obj: `obj` after the first step of the episode, for tasks with `keeps_first_obj`; else zeros. (N, 3)
    """

    computed: ClassVar[tuple[str, ...]] = ("obj",)  # see `cuda_graph.addresses`

    hand: Tensor
    openness: Tensor
    tcp: Tensor
    left_pad: Tensor
    right_pad: Tensor
    action: Tensor
    vector: Tensor
    target: Tensor
    obj_init: Tensor
    tcp_init: Tensor
    scene: SceneView
    obj: Tensor
    first_obj: Tensor

    @property
    def effort(self) -> Tensor:
        """Gripper effort of the last action; positive closes. (N,)"""
        return self.action[:, 3]

    def constant(self, *values: float) -> Tensor:
        """Return a constant vector on the state's device, ready to be broadcast. (len(values),)"""
        return constant(values, self.hand)
