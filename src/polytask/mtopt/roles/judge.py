"""The newest success detector, as the roles that need verdicts hold it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from polytask.mtopt.detector import Detector
from polytask.mtopt.records import Label


class Judge:
    """Follows a folder of detectors and speaks for the one that was written last."""

    def __init__(self, folder: Path, device: str) -> None:
        """Start with what is there; call `sync` to look again."""
        self.folder, self.device = folder, device
        self.detector: Detector | None = None
        self._seen: tuple[int, str] | None = None  # when the file in use was written, and its name
        self.sync()

    @property
    def version(self) -> str:
        """Name the detector in use; empty while there is none."""
        return self.detector.version if self.detector else ""

    @property
    def threshold(self) -> float:
        """Return the probability above which the detector in use grants success."""
        return self.detector.threshold if self.detector else 0.5

    def sync(self) -> bool:
        """Take a newer detector into use; tell whether there was one."""
        files = [(path.stat().st_mtime_ns, path.name) for path in self.folder.glob("*.pt")]
        newest = max(files, default=None)
        if newest is None or newest == self._seen:
            return False
        self.detector = Detector.load(self.folder / newest[1]).to(self.device)
        self._seen = newest
        return True

    def use(self, version: str) -> None:
        """Take a certain detector into use, by its version; UserError if there is none."""
        self.detector = Detector.load(self.folder / f"{version}.pt").to(self.device)

    def grade(self, outcome: Tensor, tasks: Sequence[str]) -> Tensor:
        """Return probabilities (B, K) on the CPU that views (B, V, S, S, 3) show successes of the tasks."""
        assert self.detector is not None
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
