"""The jobs of a run and the orders of its collectors, as the controller issues them."""

from __future__ import annotations

from dataclasses import dataclass

PHASES = ("collect", "label", "detector", "grade", "train", "evaluate")  # of a round, in order
SCRIPT, OWN = "script", "own"  # what acts for a task; any other value is the task whose policy helps


@dataclass(frozen=True)
class Job:
    """One thing to do. Several jobs may run at once only if all of them, or all but one, collect."""

    kind: str  # one of PHASES
    round: int
    number: int  # counts the jobs of this kind; jobs with equal kind and number are the same work
    target: int = 0  # with train: total number of updates when it is done
    part: int = 0  # with label: passes of labelling in this round before it


@dataclass(frozen=True)
class Order:
    """What a collector has to do."""

    seed: int  # of the scenes and all randomness; no two orders of a run share it
    sources: dict[str, str]  # task -> script, own, or the task whose policy helps
    tries_own: bool = False  # half of the attempts use the task's own policy, even if something else helps
