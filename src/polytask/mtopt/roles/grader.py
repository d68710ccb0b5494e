"""Let the detector in use label every episode that it has not labelled yet; only label rows are written.

While the detector judges some episodes, a thread reads and decompresses the next ones (`storage.threads` of them at
once). Blocks of episodes that a detector has labelled are remembered, so a later run does not look at them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import torch
from torch import Tensor

from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.detector import Judge
from polytask.mtopt.store import EpisodeStore
from polytask.mtopt.store.tallies import block_end

LIMIT = 512  # episodes that are judged together
_LAST = 2**62


class _Part(NamedTuple):
    """Some episodes, one after the other, of which some lack verdicts."""

    episodes: int
    last: int  # id of the last one
    closes: bool  # no further episode is in its block
    tasks: tuple[str, ...]  # that the detector judges
    missing: Mapping[str, set[int]]  # task -> episodes without a verdict
    wanted: list[int]  # episodes that lack one
    outcome: Tensor | None  # (B, V, S, S, 3) of those


class Grader:
    """Goes through the store, and starts again at the first episode when another detector is in use."""

    def __init__(self, config: RunConfig, version: str | None = None) -> None:
        """Open the store; with a version, use that detector instead of the one in use."""
        self.config = config
        self.store = EpisodeStore(config.root, config.storage)
        self.judge = Judge(config.detectors, config.device, version)
        self.last = 0  # episode up to which all are labelled

    def step(self, limit: int = LIMIT) -> dict[str, float]:
        """Label the next episodes, at most `limit`; `episodes` is zero when there are none left."""
        if self.judge.sync():
            self.last = 0
        part = self._read(self.last, limit)
        return self._counts(0, 0) if part is None else self._counts(part.episodes, self._label(part))

    def run(self, stops: Sequence[int] = (), *, after: int = 0, until: int = _LAST) -> dict[str, float]:
        """Label all episodes in (after, until], or those before a signal that `stops` receives."""
        if self.judge.sync():
            self.last = 0
        self.last = max(self.last, after)
        episodes = labels = 0
        with ThreadPoolExecutor(1) as reader:
            part = None if stops else self._read(self.last, LIMIT, until)
            while part is not None:
                coming = reader.submit(self._read, part.last, LIMIT, until)
                episodes, labels = episodes + part.episodes, labels + self._label(part)
                part = None if stops else coming.result()
        return self._counts(episodes, labels)

    def has_more(self) -> bool:
        """Return whether there are episodes that `run` has not reached."""
        return self.last < self.store.last()

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def _counts(self, episodes: int, labels: int) -> dict[str, float]:
        return {"episodes": float(episodes), "labels": float(labels), "last": float(self.last)}

    def _read(self, after: int, limit: int, until: int = _LAST) -> _Part | None:
        """Read the next episodes and the outcomes of those that lack a verdict; None if there are none."""
        if self.judge.detector is None:
            return None
        tasks = self.judge.judged(self.config.learned)
        after = self.store.judged_until(tasks, self.judge.version, after)
        found = self.store.commanded(after, limit)
        if not found or found[0].id > until:
            return None
        end = block_end(found[0].id)
        rows = [row for row in found if row.id <= min(end, until)]  # a part lies in one block
        source, last = f"detector:{self.judge.version}", rows[-1].id
        closes = last == end or any(row.id > end for row in found)
        missing = {task: set(self.store.unlabelled(task, source, after=after, until=last)) for task in tasks}
        lacks = set().union(*missing.values())
        wanted = [row.id for row in rows if row.length and row.id in lacks]
        outcome = torch.from_numpy(self.store.outcomes(wanted)) if wanted else None
        return _Part(len(rows), last, closes, tasks, missing, wanted, outcome)

    def _label(self, part: _Part) -> int:
        """Add the verdicts that lack and return their number."""
        new = []
        if part.outcome is not None:
            probability = self.judge.grade(part.outcome, part.tasks)
            labels = self.judge.labels(part.wanted, probability, part.tasks)
            new = [label for label in labels if label.episode in part.missing[label.task]]
            self.store.add_labels(new)
        if part.closes:
            self.store.mark_judged(part.tasks, self.judge.version, part.last)
        self.last = part.last
        return len(new)
