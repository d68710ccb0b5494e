"""The labels of a store in SQLite: appended, looked up, and removed where no one uses them.

Rows are found by task and source, in this order: no query looks at all of them. Twelve tasks and ten million episodes
are 120 million verdicts.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence

from polytask.errors import UserError
from polytask.mtopt.records import Label
from polytask.mtopt.store.index import Index
from polytask.mtopt.store.label_log import LoggedLabel
from polytask.mtopt.store.tallies import forget, forget_detector

DETECTOR = "detector:"  # start of the sources that are detectors; their version follows
AT_ONCE = 50_000  # rows that one transaction removes: others write in between


class LabelTable:
    """Adds and reads labels; the newest of an episode, task and source counts."""

    def __init__(self, index: Index) -> None:
        """Use the tables of an index."""
        self._index = index

    def add(self, labels: Sequence[Label]) -> float:
        """Append labels, all or none, and return the time that they carry.

        Raises:
            UserError: If an episode does not exist.
        """
        now = time.time()
        # SQLite stores NaN as NULL.
        rows = ((one.episode, one.task, one.source, one.value, now) for one in labels)
        statement = "INSERT INTO label(episode, task, source, value, made) VALUES (?, ?, ?, ?, ?)"
        try:
            with self._index.transaction() as connection:
                connection.executemany(statement, rows)
                forget(connection, labels)
        except sqlite3.IntegrityError as error:
            wanted = {one.episode for one in labels}
            unknown = sorted(wanted - self._index.known(wanted))
            raise UserError(f"there is no episode {unknown[0]} to label; none of the labels was added") from error
        return now

    def logged(self) -> list[LoggedLabel]:
        """Return all labels that are not verdicts of detectors, with the places of their episodes, in order."""
        found = []
        for task, source in self._pairs():
            if not source.startswith(DETECTOR):
                found += self._index.fetch(
                    "SELECT label.id, shard, offset, label.task, source, value, made FROM label "
                    "JOIN episode ON episode.id = episode WHERE label.task = ? AND source = ?",
                    (task, source),
                )
        return [LoggedLabel(*row[1:]) for row in sorted(found)]

    def labels(self, task: str | None, source: str | None) -> list[Label]:
        """Return the labels that count, the newest last."""
        found = []
        pairs = self._pairs() if task is None or source is None else [(task, source)]
        for pair in pairs:
            if task in (None, pair[0]) and source in (None, pair[1]):
                # With max(), SQLite returns the other columns of the row that holds the maximum.
                rows = self._index.fetch(
                    "SELECT episode, value, max(id) FROM label WHERE task = ? AND source = ? GROUP BY episode", pair
                )
                found += [(number, episode, value, pair) for episode, value, number in rows if value is not None]
        found.sort(key=lambda row: row[0])
        return [Label(episode, pair[0], value, pair[1]) for _, episode, value, pair in found]

    def newest(self, task: str, source: str, after: int, until: int) -> dict[int, float]:
        """Return the newest values of a source on a task, by episode in (after, until]."""
        found = self._index.fetch(
            "SELECT episode, value, max(id) FROM label WHERE task = ? AND source = ? AND episode > ? AND episode <= ? "
            "GROUP BY episode",
            (task, source, after, until),
        )
        return {episode: value for episode, value, _ in found if value is not None}

    def counts(self, source: str) -> dict[str, int]:
        """Count the labels of a source that count, by task."""
        newest = "SELECT value, max(id) FROM label WHERE task = ? AND source = ? GROUP BY episode"
        counts = {
            pair[0]: self._index.fetch(f"SELECT count(value) FROM ({newest})", pair)[0][0]
            for pair in self._pairs()
            if pair[1] == source
        }
        return {task: count for task, count in counts.items() if count}

    def unlabelled(self, task: str, source: str, after: int, until: int) -> list[int]:
        """Return the episodes in (after, until] that a source has not labelled for a task."""
        found = self._index.fetch(
            "SELECT id FROM episode WHERE id > ? AND id <= ? AND id NOT IN "
            "(SELECT episode FROM label WHERE task = ? AND source = ? AND episode > ? AND episode <= ?) ORDER BY id",
            (after, until, task, source, after, until),
        )
        return [episode for (episode,) in found]

    def prune_verdicts(self, keep: str) -> int:
        """Remove the verdicts of all detectors but one source, and return their number; people's labels stay.

        Rows go in several transactions. A kill in between leaves some of them for the next call.
        """
        removed = 0
        for pair in list(self._pairs()):
            if not pair[1].startswith(DETECTOR) or pair[1] == keep:
                continue
            with self._index.transaction() as connection:
                forget_detector(connection, pair[1].removeprefix(DETECTOR))
            while count := self._remove_some(pair):
                removed += count
        return removed

    def _remove_some(self, pair: tuple[str, str]) -> int:
        some = "SELECT id FROM label WHERE task = ? AND source = ? LIMIT ?"
        with self._index.transaction() as connection:
            return connection.execute(f"DELETE FROM label WHERE id IN ({some})", (*pair, AT_ONCE)).rowcount

    def _pairs(self) -> Iterator[tuple[str, str]]:
        """Yield every task with every source that has labelled it: one look into SQLite's index for each."""
        # Not (task, source) > (?, ?): SQLite would go through all rows of the task.
        task = ""
        while task := self._index.fetch("SELECT min(task) FROM label WHERE task > ?", (task,))[0][0]:
            source = ""
            query = "SELECT min(source) FROM label WHERE task = ? AND source > ?"
            while source := self._index.fetch(query, (task, source))[0][0]:
                yield task, source
