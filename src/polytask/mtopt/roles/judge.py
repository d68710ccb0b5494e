"""The success detector in use, as the roles that need verdicts hold it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from torch import Tensor

from polytask.mtopt.detector import Detector
from polytask.mtopt.detector.folder import in_use, path_of
from polytask.mtopt.records import Label


class Judge:
    """Follows a folder of detectors and speaks for the one in use, on the tasks that it was taught."""

    def __init__(self, folder: Path, device: str, version: str | None = None) -> None:
        """Start with what is there; call `sync` to look again.

        Args:
            folder: Of the detectors.
            device: Where to judge.
            version: A detector to keep to, whichever is in use.

        Raises:
            UserError: If that detector, or the one in use, cannot be read.
        """
        self.folder, self.device = folder, device
        self.detector: Detector | None = None
        self._fixed = version
        self._seen: tuple[int, str] | None = None  # when the file at hand was written, and its version
        self.sync()

    @property
    def version(self) -> str:
        """Name the detector at hand; empty while there is none."""
        return self.detector.version if self.detector else ""

    @property
    def threshold(self) -> float:
        """Return the probability above which the detector at hand grants success."""
        return self.detector.threshold if self.detector else 0.5

    def taught(self, tasks: Iterable[str]) -> tuple[str, ...]:
        """Name those of the tasks that the detector at hand was taught; of the others it says nothing."""
        known = self.detector.taught if self.detector else ()
        return tuple(task for task in tasks if task in known)

    def sync(self) -> bool:
        """Load the detector in use where it is another one than before; tell whether it was."""
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
        """Return probabilities (B, K) on the CPU that views (B, V, S, S, 3) show successes of tasks it was taught."""
        assert self.detector is not None
        assert self.taught(tasks) == tuple(tasks), "columns that nothing trained must never become rewards"
        columns = [self.detector.index(task) for task in tasks]
        return self.detector.predict_all(outcome.to(self.device))[:, columns].cpu()

    def labels(self, episodes: Sequence[int], probability: Tensor, tasks: Sequence[str]) -> list[Label]:
        """Write probabilities (B, K) down as label rows of B episodes and K tasks."""
        source = f"detector:{self.version}"
        rows: list[list[float]] = probability.clamp(0, 1).tolist()
        return [
            Label(episode, task, value, source)
            for episode, row in zip(episodes, rows, strict=True)
            for task, value in zip(tasks, row, strict=True)
        ]
