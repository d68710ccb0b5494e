"""Between the page and the success detector: labels in, probabilities and figures out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from polytask.mtopt.config.label import LabelConfig
from polytask.mtopt.detector import Detector, TaskScore, score, train_detector
from polytask.mtopt.detector.folder import newest as newest_version
from polytask.mtopt.detector.folder import path_of
from polytask.mtopt.store import EpisodeStore

CHUNK = 128  # episodes judged at once
_VERSION = "page-{}"
TEACHERS = ("oracle", "person")  # whose labels teach; the last one outranks the others
Labels = Mapping[str, Mapping[int, bool]]  # by task and episode


@dataclass(frozen=True)
class TaskFigures:
    """One row of the page's table; None where a figure has no meaning, such as the precision of no prediction."""

    task: str
    labels: int  # learned from
    held_successes: int  # kept aside
    held_failures: int
    precision_before: float | None
    precision_after: float | None
    recall_before: float | None
    recall_after: float | None


def fit(
    store: EpisodeStore,
    labels: Labels,
    tasks: Sequence[str],
    config: LabelConfig,
    version: str,
    progress: Callable[[float], None] | None = None,
) -> Detector:
    """Train a detector from labelled episodes; `tasks` are all it should know, in the order of its one-hot."""
    rows = [(episode, tasks.index(task), value) for task, each in labels.items() for episode, value in each.items()]
    frames = store.outcomes([episode for episode, _, _ in rows])  # (M, V, S, S, 3)
    device = torch.device(config.device)
    return train_detector(
        torch.from_numpy(frames).to(device),
        torch.tensor([number for _, number, _ in rows], device=device),
        torch.tensor([float(value) for _, _, value in rows], device=device),
        replace(config.detector, version=version, tasks=list(tasks)),
        torch.Generator(device).manual_seed(config.seed),
        progress=progress,
    )


def taught(labels: Labels) -> tuple[str, ...]:
    """Name the tasks that labels can teach a detector: those with at least one success and one failure."""
    return tuple(task for task, each in labels.items() if set(each.values()) == {True, False})


def all_labels(store: EpisodeStore) -> dict[str, dict[int, bool]]:
    """Give the labels of people and stand-ins that count, by task: what every detector of a store is taught from."""
    found: dict[str, dict[int, bool]] = {}
    for source in TEACHERS:
        for label in store.labels(source=source):
            found.setdefault(label.task, {})[label.episode] = label.value > 0.5
    return found


def judge(
    detector: Detector, store: EpisodeStore, wanted: Mapping[str, Sequence[int]], device: str
) -> dict[str, dict[int, float]]:
    """Give the probability of success by task and episode; tasks that the detector was not taught are left out."""
    found: dict[str, dict[int, float]] = {task: {} for task in wanted if task in detector.taught}
    # In the order of the episodes, so that a picture that several tasks want is read once.
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


def measure(detector: Detector | None, store: EpisodeStore, held: Labels, device: str) -> dict[str, TaskScore]:
    """Score a detector on labels that it did not learn from, by task; not on tasks that it was not taught."""
    if detector is None:
        return {}
    said = judge(detector, store, {task: list(values) for task, values in held.items()}, device)
    return {
        task: score(
            task,
            torch.tensor(list(said[task].values())),
            torch.tensor([held[task][e] for e in said[task]]).float(),
            detector.threshold,
        )
        for task in said
        if said[task]
    }


def compare(
    learned: Labels, held: Labels, before: Mapping[str, TaskScore], after: Mapping[str, TaskScore]
) -> list[TaskFigures]:
    """Lay two detectors' scores side by side, a row for every task with labels."""
    rows = []
    for task in (task for task in learned if learned[task] or held[task]):
        old, new, successes = before.get(task), after.get(task), sum(held[task].values())
        rows.append(
            TaskFigures(
                task=task,
                labels=len(learned[task]),
                held_successes=successes,
                held_failures=len(held[task]) - successes,
                precision_before=old.precision if old else None,
                precision_after=new.precision if new else None,
                recall_before=old.recall if old else None,
                recall_after=new.recall if new else None,
            )
        )
    return rows


def next_version(folder: Path) -> str:
    """Name the detector that is trained next: one more than any the page has written."""
    numbers = [int(found[1]) for path in folder.glob("*.pt") if (found := re.fullmatch(r"page-(\d+)", path.stem))]
    return _VERSION.format(max(numbers, default=0) + 1)


def newest(folder: Path, device: str) -> Detector | None:
    """Load the detector that was written last."""
    version = newest_version(folder)
    return None if version is None else Detector.load(path_of(folder, version)).to(device)
