"""The success detector in use, as a source of verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from torch import Tensor

from polytask.mtopt.detector.folder import in_use, path_of
from polytask.mtopt.detector.model import Detector
from polytask.mtopt.records import Label


class Judge:
    """Loads the detector in use from a folder and returns its verdicts on the tasks that it judges."""

    def __init__(self, folder: Path, device: str, version: str | None = None) -> None:
        """Load the detector in use, if there is one; `sync` loads it again after a change.

        Args:
            folder: Of the detectors.
            device: Where to compute verdicts.
            version: A detector to use instead of the one in use.

        Raises:
            UserError: If that detector, or the one in use, cannot be read.
        """
        self.folder, self.device = folder, device
        self.detector: Detector | None = None
        self._fixed = version
        self._seen: tuple[int, str] | None = None  # time and version of the file that is loaded
        self.sync()

    @property
    def version(self) -> str:
        """Return the version of the loaded detector; empty if there is none."""
        return self.detector.version if self.detector else ""

    def threshold(self, task: str) -> float:
        """Return the probability above which the loaded detector accepts an outcome as a success of a task."""
        return self.detector.threshold_of(task) if self.detector else 0.5

    def judged(self, tasks: Iterable[str]) -> tuple[str, ...]:
        """Return those of the tasks that the loaded detector judges: taught, and not refused as a reward."""
        known = self.detector.used if self.detector else ()
        return tuple(task for task in tasks if task in known)

    def taught(self, tasks: Iterable[str]) -> tuple[str, ...]:
        """Return those of the tasks that the loaded detector was taught."""
        known = self.detector.taught if self.detector else ()
        return tuple(task for task in tasks if task in known)

    def refused(self, tasks: Iterable[str]) -> dict[str, str]:
        """Return those of the tasks whose verdicts are no rewards although the detector was taught them, and why."""
        known = self.detector.refused if self.detector else {}
        return {task: known[task] for task in tasks if task in known}

    def sync(self) -> bool:
        """Load the detector in use if it has changed; return whether it has."""
        version = self._fixed or in_use(self.folder)
        if version is None:
            return False
        path = path_of(self.folder, version)
        seen = (path.stat().st_mtime_ns if path.exists() else 0, version)
        if seen == self._seen:
            return False
        self.detector = Detector.load(path).to(self.device)
        self._seen = seen
        return True

    def grade(self, outcome: Tensor, tasks: Sequence[str]) -> Tensor:
        """Return probabilities (B, K) on the CPU that views (B, V, S, S, 3) show successes of tasks that it judges."""
        assert self.detector is not None
        assert self.judged(tasks) == tuple(tasks), "untrained and refused columns must never become rewards"
        columns = [self.detector.index(task) for task in tasks]
        return self.detector.predict_all(outcome.to(self.device))[:, columns].cpu()

    def labels(self, episodes: Sequence[int], probability: Tensor, tasks: Sequence[str]) -> list[Label]:
        """Turn probabilities (B, K) into labels of B episodes and K tasks."""
        source = f"detector:{self.version}"
        rows: list[list[float]] = probability.clamp(0, 1).tolist()
        return [
            Label(episode, task, value, source)
            for episode, row in zip(episodes, rows, strict=True)
            for task, value in zip(tasks, row, strict=True)
        ]
