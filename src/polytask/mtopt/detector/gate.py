"""Decide which tasks a detector may reward: those that enough randomly drawn labels test, without too many errors.

A policy seeks what a detector wrongly accepts, so a task with many wrong acceptances must not be a reward. The labels
that measure a detector are kept aside, and they are random draws: the queues that ask for uncertain or likely outcomes
leave them out (`labels.is_held_out`). A task with fewer of them than a setting asks for is not tested, and no reward.
Of a rare task, few of these outcomes are accepted, and none shows no error: `needs` says how sure its precision is.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

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


def refusals(
    taught: Collection[str], scores: Mapping[str, TaskScore], least_precision: float, least_tested: int
) -> dict[str, str]:
    """Return the tasks that may not be rewards, with the reason.

    Args:
        taught: Tasks that the detector was taught.
        scores: By task, on randomly drawn labels; a task without such labels is missing.
        least_precision: Smallest precision.
        least_tested: Smallest number of randomly drawn labels.
    """
    reasons = {task: _refusal(scores.get(task), least_precision, least_tested) for task in taught}
    return {task: why for task, why in reasons.items() if why is not None}


def _refusal(score: TaskScore | None, least_precision: float, least_tested: int) -> str | None:
    count = score.count if score else 0
    if count < least_tested:
        return f"{count} random labels measure it, but at least {least_tested} must; label more under New"
    if score is None or score.precision is None or score.precision >= least_precision:
        return None
    right = round(score.precision * score.accepted)
    return (
        f"of {score.accepted} random outcomes that it calls successes, {right} are; "
        f"the precision must be at least {least_precision:.2f}"
    )


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
    if refusal is not None:
        return refusal
    if score is None:
        return "it needs successes and failures, among them random ones that measure the detector"
    low, high = precision_interval(score)
    if low < least:
        return f"too few random labels to be sure: its precision lies between {low:.2f} and {high:.2f}"
    return None
