"""The Task record: start of an episode, observation slots, reward and scripted expert of one task.

A task consists of data and pure functions. It never steps, resets, scales rewards or ends episodes: `worlds.py` and
`MultiTaskEnv` do this for all tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from polytask.envs.manipulation.stages import Stages
from polytask.envs.manipulation.state import State
from polytask.errors import UserError
from polytask.sim.view import SceneView

FRAME_PARTS = (3, 1, 3, 4, 3, 4)  # of one frame: hand, openness, position and quaternion of two objects
FRAME = sum(FRAME_PARTS)
OBS = 2 * FRAME + 3  # frame, previous frame, goal
HAND_BACK = (0.0, 0.4, 0.2)  # a start of the hand, 20 cm nearer to the robot than the usual one
BELOW_TABLE = (-0.5, 0.4, -0.15)  # a lower limit of the commanded hand, 15 cm below the top of the table


@dataclass(frozen=True)
class Slots:
    """The object part of the observation. Positions are (N, 3), quaternions (N, 4); None means zeros."""

    obj: Tensor
    obj_quat: Tensor | None = None
    obj2: Tensor | None = None
    obj2_quat: Tensor | None = None


@dataclass(frozen=True)
class Placement:
    """Positions that a reset writes, computed from the random vectors of N worlds.

    Attributes:
        target: Goal position. (N, 3)
        obj_init: Object position that rewards use as the initial one. (N, 3)
        fixtures: Position of each mocap body that the reset moves. name -> (N, 3)
        joints: Joint positions to write, with zero velocity: (N,) for slides and hinges, (N, 3) for a free joint,
            which keeps the orientation of the settled scene. name -> value
    """

    target: Tensor
    obj_init: Tensor
    fixtures: dict[str, Tensor] = field(default_factory=dict)
    joints: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Separation:
    """Constraint that two parts of the random vector are at least `distance` apart.

    Attributes:
        distance: Minimum distance.
        candidates: Number of draws, of which the first valid one is used; larger if the constraint rejects many.
        a, b: Where the two parts start and stop in the vector. Usually it holds the positions of the object and of the
            goal, and the constraint is on their x and y.
    """

    distance: float
    candidates: int = 9
    a: tuple[int, int] = (0, 2)
    b: tuple[int, int] = (3, 5)


@dataclass(frozen=True)
class Start:
    """How an episode starts: things are placed by a random vector, which is uniform in a range.

    Attributes:
        low, high: Range of the random vector. (R,)
        place: Compute the placement from random vectors (N, R).
        separation: Constraint on the random vector, if any.
        hand: Position of the hand.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    place: Callable[[Tensor], Placement]
    separation: Separation | None = None
    hand: tuple[float, float, float] = (0.0, 0.6, 0.2)


@dataclass(frozen=True)
class Look:
    """The parts of a 39-number observation that a scripted expert reads."""

    hand: Tensor  # (N, 3)
    openness: Tensor  # (N,)
    obj: Tensor  # (N, 3)
    obj_quat: Tensor  # (N, 4)
    obj2: Tensor  # (N, 3)
    obj2_quat: Tensor  # (N, 4)
    goal: Tensor  # (N, 3)
    previous_obj: Tensor  # (N, 3)

    @classmethod
    def of(cls, obs: Tensor) -> Look:
        """Split an observation (N, 39) into its parts."""
        frame, previous, goal = obs.split((FRAME, FRAME, 3), -1)
        hand, openness, obj, quat, obj2, quat2 = frame.split(FRAME_PARTS, -1)
        previous_obj = previous.split(FRAME_PARTS, -1)[2]
        return cls(hand, openness[:, 0], obj, quat, obj2, quat2, goal, previous_obj)


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task.

    Attributes:
        name: Kebab-case name: Meta-World's name without the version.
        summary: One line for tables and the gallery.
        success_rule: The success test in words.
        start: How an episode starts.
        shaped: Stages of the shaped reward; None if the task has only its dense reward.
        scene: Name of its scene.
        slots: Return the object part of the observation.
        reward: Return the dense reward (N,) and success (N,) bool.
        expert: Compute an action (N, 4) from the parts of an observation.
        hand_low, hand_high: Limits of the commanded position of the hand.
        keeps_first_obj: Whether the reward reads `State.first_obj`.
        version: Increases with any change of Meta-World's reward or of the reset.
    """

    name: str
    summary: str
    success_rule: str
    start: Start
    shaped: Stages | None = None
    scene: str
    slots: Callable[[SceneView], Slots]
    reward: Callable[[State], tuple[Tensor, Tensor]]
    expert: Callable[[Look], Tensor]
    hand_low: tuple[float, float, float] = (-0.5, 0.4, 0.05)
    hand_high: tuple[float, float, float] = (0.5, 1.0, 0.5)
    keeps_first_obj: bool = False
    version: int = 1

    def __post_init__(self) -> None:
        """Refuse a range whose two ends do not fit together."""
        low, high = len(self.start.low), len(self.start.high)
        if low != high:
            raise UserError(f"task '{self.name}': start.low has {low} numbers, start.high has {high}")
