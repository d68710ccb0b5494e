"""The shaped reward: one rule for every manipulation task, applied to the task's stages.

A task lists what the hand does, in order: it lines up on a side from which it can act, moves in, closes its fingers if
the object must be gripped, and brings the object to its goal in one or more legs. Only the stage that a world has
reached pays, by its progress in [0, 1], on top of a fixed amount for the stages before it. So a later stage always pays
at least as much as any earlier one, losing the object costs, and staying anywhere pays less than going on. Success pays
most. The stage is a function of the current state alone. Its progress is the share of the way that is done, so the
lengths of the ways at the start of an episode are remembered.

Meta-World's dense rewards are in the files of the tasks. Returns of the two rewards must not be compared; success may.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.envs.manipulation.shared.points import at_height, planar_gap
from polytask.envs.manipulation.state import State
from polytask.sim.geometry import distance

Measure = Callable[[State], Tensor]
Point = tuple[float, float, float]

SUCCESS = 10.0  # reward of a step with success, as in most of Meta-World's dense rewards
# Upper bound of the reward without success. It is far below success, so that a last step which may fail and drop the
# object is worth taking.
UNFINISHED = 5.0
# The part of it that is paid for taking the object. It is small: a policy that has taken the object risks it by moving,
# and where all stages paid the same, policies held the object and did not move.
TAKING = 1.25
SIDES: dict[str, Point] = {
    "above": (0.0, 0.0, 1.0),
    "below": (0.0, 0.0, -1.0),
    "the front": (0.0, -1.0, 0.0),
    "the left": (-1.0, 0.0, 0.0),
}
_OPEN = 0.7  # openness above which fingers can hook an object between them
# A later leg counts as this much longer than at the start of the episode, because the legs before it move the object,
# and so that moving in the wrong direction costs from its first step on.
_DETOUR = 0.1
# Legs count as this long at least, and their ways as 1 cm: an object that falls at first lies lower than it began.
_SHORTEST = 0.1
# Scales of the hand's nearness and their weights: the way over the table, the neighbourhood, precision.
_SCALES = ((0.4, 0.5), (0.1, 0.3), (0.02, 0.2))


@dataclass(frozen=True)
class Hold:
    """How the hand takes an object.

    Attributes:
        at: Position of the hand, relative to `State.obj`, from which it acts on the object.
        side: Side from which the hand moves in, a name in `SIDES`.
        away: Distance from `at` at which the hand lines up on this side.
        slack: Distance from the line of approach below which the hand counts as lined up.
        reach: Distance from the line of approach below which the hand, once in, counts as being at the object.
        depth: Distance along the line of approach below which it does.
        closed: Openness below which the fingers hold the object. They are open on the way. None: no grip.
        empty: Openness below which the fingers have closed on nothing.
        hooks: Whether the hand acts with open fingers around the object, without gripping it.
        moved: Whether an object that hangs on a joint has left the pose in which episodes start, (N,) bool. It cannot
            be lost, so the hand has taken it, with whatever part has moved it. None: only a grip takes the object.
    """

    at: Point
    side: str = "above"
    away: float = 0.1
    slack: float = 0.025
    reach: float = 0.035
    depth: float = 0.03
    closed: float | None = None
    empty: float = 0.0
    hooks: bool = False
    moved: Measure | None = None


@dataclass(frozen=True)
class Leg:
    """A part of the object's way to its goal.

    Attributes:
        words: What happens, for the documentation.
        gap: What is left of this leg, in metres. (N,)
        begins: Whether the object is on this leg or past it, (N,) bool; None: as soon as the hand has the object.
        within: Gap at which the leg ends: success, or the next leg begins.
    """

    words: str
    gap: Measure
    begins: Measure | None = None
    within: float = 0.02


@dataclass(frozen=True)
class Stages:
    """The stages of a task; `hold` is None where the hand itself is brought to the goal."""

    legs: tuple[Leg, ...]
    hold: Hold | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """What happens in each stage."""
        legs = tuple(leg.words for leg in self.legs)
        if self.hold is None:
            return legs
        opened = ", fingers open" if self.hold.hooks or self.hold.closed is not None else ""
        way = (f"line up from {self.hold.side}{opened}", "move in")
        return (*way, "close the fingers", *legs) if self.hold.closed is not None else (*way, *legs)


def gaps(s: State, stages: Stages) -> Tensor:
    """Return what is left of each leg, in metres. (N, L)"""
    return torch.stack([leg.gap(s) for leg in stages.legs], -1)


def shaped_reward(s: State, stages: Stages, success: Tensor, first_gaps: Tensor) -> Tensor:
    """Return the shaped reward of every world, in [0, 10]. (N,)

    Args:
        s: State of the worlds.
        stages: Of their task.
        success: Whether a world succeeds. (N,) bool
        first_gaps: `gaps` at the start of the episode. (N, L)
    """
    legs = len(stages.legs)
    before = len(stages.words) - legs
    height = climbed(s, stages, first_gaps)
    if before == 0:
        reward = UNFINISHED / legs * height
    else:
        carried = (height - before).clamp(min=0.0)
        reward = TAKING / before * height.clamp(max=before) + (UNFINISHED - TAKING) / legs * carried
    return reward.masked_fill_(success, SUCCESS)


def climbed(s: State, stages: Stages, first_gaps: Tensor) -> Tensor:
    """Return the number of finished stages plus the progress of the current one. (N,)"""
    reached: list[tuple[Tensor | None, Tensor]] = []  # for each stage: whether it has begun, and its progress
    has_object = None
    if stages.hold is not None:
        approach, has_object = _approach(s, stages.hold)
        reached += approach
        if stages.hold.moved is not None:
            has_object = has_object | stages.hold.moved(s)
    for number, leg in enumerate(stages.legs):
        begun = has_object if leg.begins is None else leg.begins(s)
        done = share_done(leg, leg.gap(s), first_gaps[:, number] + (_DETOUR if number else 0.0))
        reached.append((begun if has_object is None or begun is None else begun & has_object, done))
    total = reached[0][1]
    for number, (begun, progress) in enumerate(reached[1:], start=1):
        assert begun is not None
        total = torch.where(begun, number + progress, total)
    return total


def _approach(s: State, hold: Hold) -> tuple[list[tuple[Tensor | None, Tensor]], Tensor]:
    """Return beginning and progress of the stages up to the grip, and whether the hand has the object. (N,) bool"""
    axis = s.constant(*SIDES[hold.side])
    error = s.hand - (s.obj + s.constant(*hold.at))
    along = (error * axis).sum(-1)
    across = distance(error, along[:, None] * axis)
    to_line = torch.hypot(across, along - hold.away)  # distance to the point where the hand lines up
    there = (across < hold.reach) & (along.abs() < hold.depth)
    opened = 1.0 if hold.closed is None and not hold.hooks else _half_for_open(s, hold)
    stages: list[tuple[Tensor | None, Tensor]] = [
        (None, opened * nearness(to_line)),
        ((across < hold.slack) | there, opened * nearness(along.abs())),
    ]
    if hold.closed is None:
        return stages, there & (s.openness > _OPEN) if hold.hooks else there
    is_empty = s.openness < hold.empty
    closing = ((1 - s.openness) / (1 - hold.closed)).clamp(0.0, 1.0).masked_fill(is_empty, 0.0)
    return [*stages, (there, closing)], there & (s.openness < hold.closed) & ~is_empty


def _half_for_open(s: State, hold: Hold) -> Tensor:
    """Return a factor that rises from one half, for fingers as close as in a grip, to 1 for open ones. (N,)"""
    closed = _OPEN if hold.closed is None else hold.closed
    return 0.5 + 0.5 * ((s.openness - closed) / (1 - closed)).clamp(0.0, 1.0)


def share_done(leg: Leg, gap: Tensor, length: Tensor) -> Tensor:
    """Return the share of a leg that is done, in [0, 1]: nothing for having only taken the object. (N,)

    It rises by the same amount with every centimetre: a policy that has taken an object risks it for as long as it
    moves, so moving must pay at once.

    Args:
        leg: The leg.
        gap: What is left of it. (N,)
        length: What was left when it began, or more. (N,)
    """
    way = (length.clamp(min=_SHORTEST) - leg.within).clamp(min=0.01)
    return (1 - (gap - leg.within) / way).clamp(0.0, 1.0)


def nearness(gap: Tensor) -> Tensor:
    """Return 1 for no gap, falling to 0: steep within centimetres, and still sloping a metre away. (N,)"""
    return 1 - sum((weight * torch.tanh(gap / scale) for scale, weight in _SCALES), torch.zeros_like(gap))


def the_object(s: State) -> Tensor:
    """Return the observed point of the object. (N, 3)"""
    return s.obj


def the_goal(s: State) -> Tensor:
    """Return the goal. (N, 3)"""
    return s.target


def the_fingertips(s: State) -> Tensor:
    """Return the point midway between the fingertips. (N, 3)"""
    return s.tcp


def goal_at(height: float) -> Measure:
    """Return the measure of the goal's position with another height. (N, 3)"""
    return lambda s: at_height(s.target, height)


def bring(
    words: str, within: float, point: Measure = the_object, goal: Measure = the_goal, along: str = "xyz"
) -> tuple[Leg]:
    """Return the only leg of a way straight to a goal; only distances along the named axes count."""
    axes = tuple(float(axis in along) for axis in "xyz")
    return (Leg(words, lambda s: distance(point(s), goal(s), s.constant(*axes)), within=within),)


def line_up(words: str, error: Measure, slack: float, then: str, rest: Measure, *, within: float) -> tuple[Leg, Leg]:
    """Return the legs that bring an error below `slack`, and then the rest of the way to nothing.

    Args:
        words: The first leg in words.
        error: What must become small first, in metres. (N,)
        slack: Error below which the second leg begins.
        then: The second leg in words.
        rest: What is left of the way, in metres. (N,)
        within: The rest at which the second leg ends.
    """

    def is_lined_up(s: State) -> Tensor:
        return error(s) < slack

    return Leg(words, error, within=slack), Leg(then, rest, is_lined_up, within)


def carry_over(
    words: str, level: float, hole: float, within: float, *, point: Measure = the_object, goal: Measure = the_goal
) -> tuple[Leg, Leg]:
    """Return the legs that lift a point and then bring it to a goal.

    Args:
        words: The second leg in words.
        level: Height to lift the point to. Moving sideways pays only above it, less 2 cm.
        hole: Horizontal distance from the goal below which the point may be lower; 0 for nowhere.
        within: Sum of the horizontal and vertical distances from the goal at which the second leg ends.
        point: Position of the point. (N, 3)
        goal: Position to bring it to. (N, 3)
    """

    def lack(s: State) -> Tensor:
        return (level - point(s)[:, 2]).clamp(min=0.0)

    def is_over(s: State) -> Tensor:
        return (lack(s) < 0.02) | (planar_gap(point(s), goal(s)) < hole)

    def rest(s: State) -> Tensor:
        return planar_gap(point(s), goal(s)) + (point(s)[:, 2] - goal(s)[:, 2]).abs()

    return Leg(f"lift it {100 * level:.0f} cm high", lack), Leg(words, rest, is_over, within)
