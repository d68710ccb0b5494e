"""Train a success detector from people's labels in the store, publish it as a new version and take it into use."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict

from polytask.errors import UserError
from polytask.files import write_text
from polytask.mtopt.config.label import LabelConfig
from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.detector import TaskScore
from polytask.mtopt.detector.folder import choose, path_of
from polytask.mtopt.label.judge import all_labels, compare, fit, measure, taught
from polytask.mtopt.label.training import split
from polytask.mtopt.seeds import derive
from polytask.mtopt.store import EpisodeStore
from polytask.mtopt.world import ALL_TASKS

MEASURED = 0.2  # share of the episodes whose labels measure and never train, the same as on the page


class DetectorTrainer:
    """Reads labels, writes detectors."""

    def __init__(self, config: RunConfig) -> None:
        """Open the store."""
        self.config = config
        self.store = EpisodeStore(config.root, config.storage)

    def teachable(self) -> tuple[str, ...]:
        """Name the tasks that a detector would be taught by the labels there are."""
        return taught(split(all_labels(self.store), MEASURED)[0])

    def step(self, version: str, progress: Callable[[float], None] | None = None) -> dict[str, float]:
        """Train a version, publish it and take it into use; return its figures on labels kept aside.

        Args:
            version: Name of the file and of the source of its verdicts.
            progress: Told the share that is done; whatever it raises stops the training and nothing is published.

        Raises:
            UserError: If no task has labels of both kinds.
        """
        labels = all_labels(self.store)
        learned, held = split(labels, MEASURED)
        if not taught(learned):
            hint = f"polytask label run_dir={self.config.run_dir}"
            raise UserError(f"label some successes and some failures of a task first: {hint}")
        seed = derive(self.config.seed, "detector", version)
        settings = LabelConfig(
            run_dir=self.config.run_dir, device=self.config.device, seed=seed, detector=self.config.detector
        )
        detector = fit(self.store, learned, ALL_TASKS, settings, version, progress)
        scores = measure(detector, self.store, held, self.config.device)
        rows = [asdict(row) for row in compare(learned, held, {}, scores)]  # as the page writes and shows them
        full = {task: asdict(score) for task, score in scores.items()}
        self.config.detectors.mkdir(parents=True, exist_ok=True)
        for name, content in ((f"{version}.json", rows), (f"{version}.scores.json", full)):
            write_text(self.config.detectors / name, json.dumps(content, indent=1))
        detector.save(path_of(self.config.detectors, version))
        choose(self.config.detectors, version)
        return {
            "taught": float(len(detector.taught)),
            "labels": float(sum(map(len, learned.values()))),
            "held": float(sum(map(len, held.values()))),
            **figures(scores),
        }

    def close(self) -> None:
        """Close the store."""
        self.store.close()


def figures(scores: dict[str, TaskScore]) -> dict[str, float]:
    """Flatten scores, with means over the tasks that have a value."""
    flat: dict[str, float] = {}
    for name in ("balanced_accuracy", "precision", "recall", "false_positive_rate"):
        values = {task: getattr(score, name) for task, score in scores.items()}
        known = {task: value for task, value in values.items() if value is not None}
        flat |= {f"{name}/{task}": value for task, value in known.items()}
        if known:
            flat[name] = sum(known.values()) / len(known)
    return flat
