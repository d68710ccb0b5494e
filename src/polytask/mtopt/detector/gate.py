"""Decide which tasks a detector may reward: those whose precision on randomly drawn labels is not too low.

A policy seeks what a detector wrongly accepts, so a task with many wrong acceptances must not be a reward. The labels
that measure a detector are kept aside, and they are random draws: the queues that ask for uncertain or likely outcomes
leave them out (`labels.is_held_out`). A task of which no such outcome was accepted has no precision and is not refused.
Few random labels may refuse a good task or admit a bad one; `needs` says so, with an interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from polytask.mtopt.detector.metrics import TaskScore

Z = 1.96  # of a 95 % interval


def precision_interval(score: TaskScore) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a task's precision; the whole range if nothing was accepted."""
    if score.precision is None:
        return 0.0, 1.0
    count, share = score.accepted, score.precision
    middle = (share + Z**2 / (2 * count)) / (1 + Z**2 / count)
    half = Z / (1 + Z**2 / count) * math.sqrt(share * (1 - share) / count + Z**2 / (4 * count**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def refusals(scores: Mapping[str, TaskScore], least: float) -> dict[str, str]:
    """Return the tasks that may not be rewards, with the reason.

    Args:
        scores: By task, on randomly drawn labels.
        least: Smallest precision.
    """
    found = {}
    for task, score in scores.items():
        if score.precision is not None and score.precision < least:
            right = round(score.precision * score.accepted)
            found[task] = (
                f"of {score.accepted} random outcomes that it calls successes, {right} are; "
                f"the precision must be at least {least:.2f}"
            )
    return found


def needs(score: TaskScore | None, refusal: str | None, least: float, lack: str | None = None) -> str | None:
    """Say why a task needs more labels; None if it does not.

    Args:
        score: On randomly drawn labels; None if the detector was not taught the task or there are none.
        refusal: Why its verdicts are no rewards, if so.
        least: Smallest precision.
        lack: Which kind of labels is missing among those that train, if so (`labels.lacking`).
    """
    if lack is not None:
        return lack
    if score is None:
        return "it needs successes and failures, among them random ones that measure the detector"
    if refusal is not None:
        return refusal
    low, high = precision_interval(score)
    if low < least:
        return f"too few random labels to be sure: its precision lies between {low:.2f} and {high:.2f}"
    return None
