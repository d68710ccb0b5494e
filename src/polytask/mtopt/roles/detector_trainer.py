"""Train a success detector from people's labels in the store, publish it as a new version and put it into use."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace

from polytask.errors import UserError
from polytask.mtopt.config.learning import MEASURED
from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.detector import Detector
from polytask.mtopt.detector.folder import choose, in_use, path_of
from polytask.mtopt.detector.labelled import admit, compare, measure, publish, train_on_labels
from polytask.mtopt.detector.labels import Labels, labels_by_task, lacking, split, stand_in_counts, teachable
from polytask.mtopt.detector.metrics import TaskScore
from polytask.mtopt.run_tasks import tasks_of
from polytask.mtopt.seeds import derive
from polytask.mtopt.store import EpisodeStore


class DetectorTrainer:
    """Reads labels, writes detectors."""

    def __init__(self, config: RunConfig) -> None:
        """Open the store."""
        self.config = config
        self.store = EpisodeStore(config.root, config.storage)

    def teachable(self) -> tuple[str, ...]:
        """Return the tasks that the present labels can teach a detector."""
        return teachable(self._split()[0])

    def lacking(self, tasks: Iterable[str]) -> dict[str, str]:
        """Say which kind of labels is missing among those that train, for those of the tasks that they do not teach."""
        learned, held = self._split()
        found = {task: lacking(learned.get(task, {}), held.get(task, {})) for task in tasks}
        return {task: lack for task, lack in found.items() if lack is not None}

    def step(
        self, version: str, progress: Callable[[float], None] | None = None, start: str | None = None
    ) -> dict[str, float]:
        """Train a version, publish it and put it into use; return its figures on labels kept aside.

        A version that may reward none of the learned tasks does not take the place of one that may.

        Args:
            version: Name of the file and of the source of its verdicts.
            start: Version to continue from; None for new weights.
            progress: Receives the share that is done; an exception that it raises stops the training, and nothing is
                published.

        Raises:
            UserError: If no task has both successes and failures.
        """
        config = self.config
        learned, held = self._split()
        if not teachable(learned):
            hint = f"polytask label run_dir={config.run_dir}"
            raise UserError(f"label some successes and some failures of a task first: {hint}")
        tasks = tasks_of(config)
        settings = replace(config.detector, version=version, tasks=list(tasks), slots=tasks.slots)
        seed = derive(config.seed, "detector", version)
        before = Detector.load(path_of(config.detectors, start)) if start else None
        detector = train_on_labels(self.store, learned, settings, config.device, seed, progress, before)
        scores = measure(detector, self.store, held, config.device)
        admit(detector, scores, settings)
        least, counts = settings.least_precision, stand_in_counts(self.store, learned)
        figures = compare(learned, held, {}, scores, detector=detector, least_precision=least, stand_in=counts)
        used = in_use(config.detectors)  # before the new one is the newest
        publish(detector, figures, config.detectors, scores)
        choose(config.detectors, version if used is None or self._is_better(detector, used) else used)
        return {
            "taught": float(len(detector.taught)),
            "refused": float(len(detector.refused)),
            "labels": float(sum(map(len, learned.values()))),
            "held": float(sum(map(len, held.values()))),
            **flatten(scores),
        }

    def lesson(self) -> str:
        """Return a digest of what a training learns from: the labels and the settings."""
        text = json.dumps([*self._split(), asdict(self.config.detector)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _is_better(self, detector: Detector, used: str) -> bool:
        """Return whether a detector may reward a learned task, or the one in use may reward none either."""
        learned = set(self.config.learned)
        if not learned.isdisjoint(detector.used):
            return True
        return learned.isdisjoint(Detector.load(path_of(self.config.detectors, used)).used)

    def _split(self) -> tuple[Labels, Labels]:
        """Return the labels that train, and those that measure."""
        known = tasks_of(self.config)
        labels = {task: each for task, each in labels_by_task(self.store).items() if task in known}
        return split(labels, MEASURED, self.store.examples())

    def close(self) -> None:
        """Close the store."""
        self.store.close()


def flatten(scores: dict[str, TaskScore]) -> dict[str, float]:
    """Return scores by name, with means over the tasks that have a value."""
    flat: dict[str, float] = {}
    for name in ("balanced_accuracy", "precision", "recall", "false_positive_rate"):
        values = {task: getattr(score, name) for task, score in scores.items()}
        known = {task: value for task, value in values.items() if value is not None}
        flat |= {f"{name}/{task}": value for task, value in known.items()}
        if known:
            flat[name] = sum(known.values()) / len(known)
    return flat
