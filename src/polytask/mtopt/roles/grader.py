"""Let the detector in use label every episode that it has not labelled yet; only label rows are written."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.detector import Judge
from polytask.mtopt.store import EpisodeStore


class Grader:
    """Goes through the store, and starts again at the first episode when another detector is in use."""

    def __init__(self, config: RunConfig, version: str | None = None) -> None:
        """Open the store; with a version, use that detector instead of the one in use."""
        self.config = config
        self.store = EpisodeStore(config.root, config.storage)
        self.judge = Judge(config.detectors, config.device, version)
        self.last = 0  # episode up to which all are labelled

    def step(self, limit: int = 512) -> dict[str, float]:
        """Label the next episodes, at most `limit`; `episodes` is zero when there are none left."""
        if self.judge.sync():
            self.last = 0
        rows = self.store.rows(after=self.last, limit=limit) if self.judge.detector else []
        if not rows:
            return {"episodes": 0.0, "labels": 0.0, "last": float(self.last)}
        source, span = f"detector:{self.judge.version}", {"after": self.last, "until": rows[-1].id}
        tasks = self.judge.judged(self.config.learned)
        missing = {task: set(self.store.unlabelled(task, source, **span)) for task in tasks}
        wanted = [row.id for row in rows if row.length and any(row.id in each for each in missing.values())]
        labels = 0
        if wanted:
            frames = torch.from_numpy(self.store.outcomes(wanted))
            rows_of = self.judge.labels(wanted, self.judge.grade(frames, tasks), tasks)
            new = [label for label in rows_of if label.episode in missing[label.task]]
            self.store.add_labels(new)
            labels = len(new)
        self.last = rows[-1].id
        return {"episodes": float(len(rows)), "labels": float(labels), "last": float(self.last)}

    def run(self, stops: Sequence[int] = ()) -> dict[str, float]:
        """Label all episodes, or those before a signal that `stops` receives."""
        episodes = labels = 0.0
        while not stops and (done := self.step())["episodes"]:
            episodes, labels = episodes + done["episodes"], labels + done["labels"]
        return {"episodes": episodes, "labels": labels, "last": float(self.last)}

    def has_more(self) -> bool:
        """Return whether there are episodes that `run` has not reached."""
        return bool(self.store.rows(after=self.last, limit=1))

    def close(self) -> None:
        """Close the store."""
        self.store.close()
