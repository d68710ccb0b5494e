"""Scores of a success detector per task, and the outcomes that a person should look at next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polytask.mtopt.detector.model import Detector
from polytask.mtopt.tasks import BROAD

BINS = 10
Numbers = Tensor | NDArray[np.floating] | Sequence[float]


@dataclass(frozen=True)
class Calibration:
    """Predicted and true rates of success in ten bins of the predicted probability."""

    error: float  # expected calibration error: mean of |said - true| over the examples
    count: list[int]  # examples in each bin
    said: list[float | None]  # mean predicted probability in each bin; None in an empty bin
    true: list[float | None]  # share of successes in each bin; None in an empty bin


@dataclass(frozen=True)
class TaskScore:
    """Scores of a detector's verdicts on one task; None where a score would divide by zero."""

    task: str
    count: int
    successes: int  # true ones
    accepted: int  # called successes
    precision: float | None
    recall: float | None
    false_positive_rate: float | None
    balanced_accuracy: float | None
    calibration: Calibration


@dataclass(frozen=True)
class DetectorReport:
    """Scores of all taught tasks that have examples."""

    version: str
    threshold: float
    tasks: list[TaskScore]

    def of(self, task: str) -> TaskScore:
        """Return one task's scores."""
        return next(row for row in self.tasks if row.task == task)


@dataclass(frozen=True)
class WrongObject:
    """How often a narrow task is accepted although the robot succeeded with another object."""

    task: str
    count: int  # outcomes in which the broad task succeeded and this one did not
    accepted: int  # of them, accepted

    @property
    def rate(self) -> float | None:
        """Return the share that was accepted; None if there are no such outcomes."""
        return ratio(self.accepted, self.count)


def ratio(part: float, whole: int) -> float | None:
    """Divide; return None if the whole is zero."""
    return part / whole if whole else None


def calibration(probability: Tensor, truth: Tensor) -> Calibration:
    """Compare probabilities (M,) with truths (M,) in ten bins of equal width."""
    probability, truth = probability.double().cpu(), truth.double().cpu()
    index = (probability * BINS).long().clamp(max=BINS - 1)
    count = torch.zeros(BINS, dtype=torch.double).index_add(0, index, torch.ones_like(probability))
    said = torch.zeros(BINS, dtype=torch.double).index_add(0, index, probability)
    true = torch.zeros(BINS, dtype=torch.double).index_add(0, index, truth)
    counts = [int(number) for number in count]
    return Calibration(
        error=float((said - true).abs().sum() / max(len(probability), 1)),
        count=counts,
        said=[ratio(total, number) for total, number in zip(said.tolist(), counts, strict=True)],
        true=[ratio(total, number) for total, number in zip(true.tolist(), counts, strict=True)],
    )


def score(task: str, probability: Tensor, truth: Tensor, threshold: float = 0.5) -> TaskScore:
    """Score probabilities (M,) of one task against truths (M,)."""
    said, true = probability > threshold, truth > 0.5
    hits, successes, accepted = int((said & true).sum()), int(true.sum()), int(said.sum())
    failures = len(true) - successes
    recall, wrong = ratio(hits, successes), ratio(accepted - hits, failures)
    return TaskScore(
        task=task,
        count=len(true),
        successes=successes,
        accepted=accepted,
        precision=ratio(hits, accepted),
        recall=recall,
        false_positive_rate=wrong,
        balanced_accuracy=None if recall is None or wrong is None else (recall + 1 - wrong) / 2,
        calibration=calibration(probability, true),
    )


def evaluate(detector: Detector, frames: Tensor, task: Tensor, truth: Tensor) -> DetectorReport:
    """Score a detector on frames (M, V, S, S, 3) of tasks (M,) with truths (M,), without tasks it was not taught."""
    probability = detector.predict(frames, task)
    rows = []
    for index, name in enumerate(detector.tasks):
        mine = task == index
        if name in detector.taught and bool(mine.any()):
            rows.append(score(name, probability[mine], truth[mine], detector.threshold_of(name)))
    return DetectorReport(detector.version, detector.threshold, rows)


def wrong_objects(
    detector: Detector, frames: Tensor, truth: Mapping[str, Tensor], broad: str = BROAD["lift"]
) -> list[WrongObject]:
    """Count, for each narrow task of `truth`, outcomes that are accepted although only another object succeeded.

    Such errors harm data sharing: an episode with the wrong object becomes an example of the right one. Tasks that the
    detector was not taught have no verdicts and are left out.

    Args:
        detector: Detector to measure.
        frames: (M, V, S, S, 3) outcomes.
        truth: Task name -> (M,) the simulator's truth; the broad task and narrow ones of its skill.
        broad: Task that succeeds with any object.
    """
    rows = []
    for name in (name for name in truth if name != broad and name in detector.taught):
        rows_of = torch.nonzero(truth[broad].bool() & ~truth[name].bool()).squeeze(1).to(frames.device)
        task = torch.full_like(rows_of, detector.index(name))
        accepted = int(detector.accepts(frames[rows_of], task).sum()) if len(rows_of) else 0
        rows.append(WrongObject(name, len(rows_of), accepted))
    return rows


def uncertain_first(probabilities: Numbers, threshold: float = 0.5) -> Tensor:
    """Order outcomes (M,) from the one nearest to the threshold to the surest; ties keep their order."""
    return (torch.as_tensor(probabilities).double() - threshold).abs().argsort(stable=True)


def disagreements(labels: Numbers, probabilities: Numbers, threshold: float = 0.5) -> Tensor:
    """Return the outcomes whose label and verdict differ, the surest verdict first."""
    said = torch.as_tensor(probabilities).double()
    differs = (torch.as_tensor(labels).double() > 0.5) != (said > threshold)
    order = uncertain_first(said, threshold).flip(0)
    return order[differs[order]]
