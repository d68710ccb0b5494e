"""The episodes that can be labelled for each task, as arrays: a store may hold millions, and pages ask for a few."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from polytask.mtopt.label.queues import shuffled
from polytask.mtopt.learning.sharing import impersonate
from polytask.mtopt.records import TaskInfo
from polytask.mtopt.store import EpisodeStore

CHUNK = 100_000  # rows that are read at once


class Candidates:
    """Lists the episodes of a store by commanded task, and orders those of one task at random."""

    def __init__(self, store: EpisodeStore, tasks: Mapping[str, TaskInfo], share: str) -> None:
        """Start before the first episode.

        Args:
            store: The log.
            tasks: All tasks; episodes of other tasks are left out.
            share: Which tasks an episode can be labelled for; see `impersonate`.
        """
        self._store = store
        self._last = 0
        self._ids: dict[str, list[NDArray[np.int64]]] = {name: [] for name in tasks}  # by commanded task, in parts
        # Task -> commanded tasks whose episodes can be labelled for it.
        self._sources = {task: [name for name in tasks if task in impersonate(share, name, tasks)] for task in tasks}
        self._order: tuple[str, int, NDArray[np.int64], NDArray[np.int64]] | None = None

    def refresh(self) -> None:
        """List the episodes that collectors have added."""
        while rows := self._store.commanded(self._last, CHUNK):
            self._last = rows[-1].id
            ids, names = np.array([row.id for row in rows]), np.array([row.task for row in rows])
            for name in set(names.tolist()).intersection(self._ids):
                self._ids[name].append(ids[names == name])

    def count(self, task: str) -> int:
        """Count the episodes that can be labelled for a task."""
        return sum(len(part) for name in self._sources[task] for part in self._ids[name])

    def among(self, task: str, episodes: Collection[int]) -> set[int]:
        """Return those of the episodes that can be labelled for a task."""
        ids = self._ordered(task)[0]
        if not len(ids):
            return set()
        asked = np.fromiter(episodes, np.int64, len(episodes))
        at = np.minimum(np.searchsorted(ids, asked), len(ids) - 1)
        return set(asked[ids[at] == asked].tolist())

    def shuffled(self, task: str, without: Collection[int]) -> Iterator[int]:
        """Yield the episodes that can be labelled for a task at random, the same way every time, without some."""
        return (one for one in map(int, self._ordered(task)[1]) if one not in without)

    def _ordered(self, task: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the ids of a task by age, and at random; those of the last task are remembered."""
        count = self.count(task)
        if self._order is None or self._order[:2] != (task, count):
            parts = [part for name in self._sources[task] for part in self._ids[name]]
            ids = np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.int64)
            self._order = (task, count, ids, shuffled(ids, task))
        return self._order[2:]
