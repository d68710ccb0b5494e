"""Train and measure a detector on the labelled episodes of a store, for the labelling page and for a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from polytask.files import make_folder, write_text
from polytask.mtopt.config.learning import DetectorConfig
from polytask.mtopt.detector.folder import figures_path, path_of, scores_path
from polytask.mtopt.detector.gate import needs, refusals
from polytask.mtopt.detector.labels import Labels, lacking
from polytask.mtopt.detector.metrics import TaskScore, score
from polytask.mtopt.detector.model import Detector
from polytask.mtopt.detector.train import train_detector
from polytask.mtopt.store import EpisodeStore

CHUNK = 128  # episodes judged at once


@dataclass(frozen=True)
class TaskFigures:
    """One row of the page's table; None where a figure has no meaning, such as the precision without a prediction."""

    task: str
    labels: int  # learned from
    held_successes: int  # kept aside, drawn at random
    held_failures: int
    precision_before: float | None
    precision_after: float | None
    recall_before: float | None
    recall_after: float | None
    by_stand_in: int = 0  # of the labels learned from, those of the stand-in that no person has given
    threshold: float | None = None
    is_used: bool = False  # its verdicts may become rewards
    why: str | None = None  # the reason why it needs more labels, if so


def train_on_labels(  # noqa: PLR0913 - what a training depends on
    store: EpisodeStore,
    labels: Labels,
    config: DetectorConfig,
    device: str,
    seed: int,
    progress: Callable[[float], None] | None = None,
    start: Detector | None = None,
) -> Detector:
    """Train a detector from labelled episodes.

    Args:
        store: Where the episodes are.
        labels: What to learn from; their tasks are among the configuration's.
        config: Version, tasks and training.
        device: Where to train.
        seed: Of the training.
        progress: Receives the share of the updates that is done; an exception that it raises ends the training.
        start: A detector to continue from, if its network fits; None for new weights.
    """
    tasks = config.tasks
    rows = [(episode, tasks.index(task), value) for task, each in labels.items() for episode, value in each.items()]
    frames = store.outcomes([episode for episode, _, _ in rows])  # (M, V, S, S, 3)
    return train_detector(
        torch.from_numpy(frames).to(device),
        torch.tensor([number for _, number, _ in rows], device=device),
        torch.tensor([float(value) for _, _, value in rows], device=device),
        config,
        torch.Generator(device).manual_seed(seed),
        progress=progress,
        start=start,
    )


def judge_episodes(
    detector: Detector, store: EpisodeStore, wanted: Mapping[str, Sequence[int]], device: str
) -> dict[str, dict[int, float]]:
    """Return the probability of success by task and episode, without tasks that the detector was not taught."""
    found: dict[str, dict[int, float]] = {task: {} for task in wanted if task in detector.taught}
    # In the order of the episodes, so that a picture that several tasks need is read once.
    pairs = sorted((episode, task) for task in found for episode in wanted[task])
    for start in range(0, len(pairs), CHUNK):
        chunk = pairs[start : start + CHUNK]
        numbers = list(dict.fromkeys(episode for episode, _ in chunk))
        pictures = dict(zip(numbers, store.outcomes(numbers), strict=True))
        frames = torch.from_numpy(np.stack([pictures[episode] for episode, _ in chunk])).to(device)  # (B, V, S, S, 3)
        task = torch.tensor([detector.index(name) for _, name in chunk], device=device)
        for (episode, name), value in zip(chunk, detector.predict(frames, task).tolist(), strict=True):
            found[name][episode] = value
    return found


def measure(detector: Detector, store: EpisodeStore, held: Labels, device: str) -> dict[str, TaskScore]:
    """Score a detector by task on labels that it did not learn from, without tasks that it was not taught."""
    said = judge_episodes(detector, store, {task: list(values) for task, values in held.items()}, device)
    return {
        task: score(
            task,
            torch.tensor(list(said[task].values())),
            torch.tensor([held[task][e] for e in said[task]]).float(),
            detector.threshold_of(task),
        )
        for task in said
        if said[task]
    }


def admit(detector: Detector, scores: Mapping[str, TaskScore], config: DetectorConfig) -> None:
    """Refuse the tasks of a detector that must not become rewards; see `gate`."""
    detector.refused = refusals(detector.taught, scores, config.least_precision, config.least_tested)


def compare(  # noqa: PLR0913 - the columns of a table
    learned: Labels,
    held: Labels,
    before: Mapping[str, TaskScore],
    after: Mapping[str, TaskScore],
    *,
    detector: Detector,
    least_precision: float,
    stand_in: Mapping[str, int] | None = None,
) -> list[TaskFigures]:
    """Compare the scores of two detectors, with a row for every task that has labels.

    Args:
        learned: Labels that the new detector learned from.
        held: Labels that measured both.
        before: Scores of the detector before it.
        after: Scores of the new detector.
        detector: The new detector, after `admit`.
        least_precision: Of a task that is a reward.
        stand_in: How many of a task's learned labels are the stand-in's.
    """
    rows = []
    for task in (task for task in learned if learned[task] or held[task]):
        old, new, successes = before.get(task), after.get(task), sum(held[task].values())
        is_taught = task in detector.taught
        lack = lacking(learned[task], held[task]) if not is_taught else None
        rows.append(
            TaskFigures(
                task=task,
                labels=len(learned[task]),
                by_stand_in=(stand_in or {}).get(task, 0),
                held_successes=successes,
                held_failures=len(held[task]) - successes,
                precision_before=old.precision if old else None,
                precision_after=new.precision if new else None,
                recall_before=old.recall if old else None,
                recall_after=new.recall if new else None,
                threshold=detector.threshold_of(task) if is_taught else None,
                is_used=task in detector.used,
                why=needs(new if is_taught else None, detector.refused.get(task), least_precision, lack),
            )
        )
    return rows


def publish(
    detector: Detector,
    figures: Sequence[TaskFigures],
    folder: Path,
    scores: Mapping[str, TaskScore] | None = None,
) -> None:
    """Write a detector and its figures, with its full scores if they are given, to a folder of detectors.

    The detector comes last: where a kill interrupts this, there is no detector without figures.
    """
    make_folder(folder)
    write_text(figures_path(folder, detector.version), json.dumps([asdict(row) for row in figures], indent=1))
    if scores is not None:
        full = {task: asdict(score) for task, score in scores.items()}
        write_text(scores_path(folder, detector.version), json.dumps(full, indent=1))
    detector.save(path_of(folder, detector.version))
