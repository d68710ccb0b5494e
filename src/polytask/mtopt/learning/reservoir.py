"""Choose which episodes of a log are held in memory, where not all of them fit (MT-Opt's log replay).

Every task has two reservoirs, of its successes and of its failures. All of them get the same number of episodes, as far
as they have so many; so rare successes stay as long as the log has them, however many failures come after them. An
episode is in the reservoirs of all tasks that use it and is held once.

The episodes lie on a circle, each at a place that never changes. A reservoir holds those that follow a starting point,
which moves on with every turn: after enough turns, every episode of the log has been held. The choice depends on the
log and on the turn alone, so a resumed run holds what an uninterrupted one holds.

The log is sorted once, when episodes are added to it. A turn looks only at those that follow the starting point, about
as many as are held, and not at all that there are.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from polytask.mtopt.seeds import uniform_hashes

_FIRST_LOOK = 1024  # episodes of a reservoir that are looked at first; more follow if there is room for them


class Reservoirs:
    """The episodes of a log by task and outcome, each in the order of the circle."""

    def __init__(self, number: NDArray[np.int64], frames: NDArray[np.int64], verdict: NDArray[np.int8]) -> None:
        """Sort the episodes.

        Args:
            number: (E,) ids.
            frames: (E,) frames of each.
            verdict: (E, K) 1 success, 0 failure, -1 not used, for each task; some task uses every episode.
        """
        self.number, self.frames, self.verdict = number, frames, verdict
        self.total = int(frames.sum())
        self._place = uniform_hashes(number, "reservoir")
        order = np.argsort(self._place, kind="stable").astype(np.int32)
        columns = (verdict[order, task] for task in range(verdict.shape[1]))
        self._cells = [order[column == outcome] for column in columns for outcome in (0, 1)]

    def choose(self, capacity: int, *, turn: int = 0, refresh: float = 0.1) -> NDArray[np.int64]:
        """Return the rows of the episodes that are held, in increasing order.

        Args:
            capacity: Frames that can be held.
            turn: How often episodes were replaced before.
            refresh: Share of what a reservoir holds that is replaced in a turn, if it holds a part of its episodes.
        """
        if self.total <= capacity:
            return np.arange(len(self.number))
        start = turn * refresh * capacity / self.total % 1.0
        firsts = [bisect_left(cell, start, key=self._place.__getitem__) for cell in self._cells]
        most, longest = _FIRST_LOOK, max(map(len, self._cells))
        while True:
            ranked, rank = self._ranked(firsts, most)
            circle = (self._place[ranked] - start) % 1.0
            chosen = ranked[np.lexsort((circle, rank))]
            filled = self.frames[chosen].cumsum()
            if filled[-1] > capacity or most >= longest:
                return np.sort(chosen[filled <= capacity]).astype(np.int64)
            most *= 4

    def _ranked(self, firsts: list[int], most: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the rows that come among the first in some reservoir, and the best rank of each."""
        rows, ranks = [], []
        for cell, first in zip(self._cells, firsts, strict=True):
            part = cell[first : first + most]
            part = np.concatenate((part, cell[: max(0, min(most - len(part), first))]))
            rows.append(part)
            ranks.append(np.arange(len(part)))
        row, rank = np.concatenate(rows), np.concatenate(ranks)
        order = np.lexsort((rank, row))
        unique, at = np.unique(row[order], return_index=True)
        return unique, rank[order][at]
