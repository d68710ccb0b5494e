"""Counts of episodes and verdicts that are remembered, so that a store of millions is not counted again every time.

Episodes are counted in blocks of ids. The counts of a block are remembered once all of its ids are in use, and
forgotten when a label on one of its episodes comes. Only the blocks that changed, and the last one, are counted again.

A block is *judged* by a detector if the detector has a verdict on each of its episodes: it needs no second look.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from polytask.mtopt.records import Label
from polytask.mtopt.store.index import Index

BLOCK = 4_096  # ids; block b holds the ids from b * BLOCK + 1 to (b + 1) * BLOCK
_TOGETHER = 32  # blocks that are counted in one transaction, during which nobody else writes
_DETECTOR = "detector:"
_EPISODES = "SELECT task, policy, count(*), 0 FROM episode WHERE id > :low AND id <= :high GROUP BY task, policy"
_NEWEST = (
    "SELECT episode, value, max(id) FROM label WHERE task = :task AND source = {0} AND episode > :low "
    "AND episode <= :high GROUP BY episode"
)
# A person's label outranks the detector's; uploads, which have no actions, do not count.
_VERDICTS = (
    f"WITH said AS ({_NEWEST.format(':source')}), told AS ({_NEWEST.format(':person')}), "
    "verdict AS (SELECT episode, value > 0.5 AS won FROM told WHERE value IS NOT NULL UNION ALL "
    "SELECT episode, value > :threshold FROM said WHERE value IS NOT NULL AND episode NOT IN "
    "(SELECT episode FROM told WHERE value IS NOT NULL)) "
    "SELECT e.task, e.policy, count(*), sum(won) FROM verdict JOIN episode AS e ON e.id = verdict.episode "
    "WHERE e.length > 0 GROUP BY e.task, e.policy"
)
_KEY = "task = :task AND detector = :detector AND threshold = :threshold"


def block_end(episode: int) -> int:
    """Return the last id of an episode's block."""
    return -(-episode // BLOCK) * BLOCK


class Tally(NamedTuple):
    """Episodes with a verdict on a task, of one commanded task and policy."""

    commanded: str
    policy: str
    is_later: bool  # after the episode that was asked about
    episodes: int
    successes: int


class _Subject(NamedTuple):
    """What is counted: the verdicts of a detector on a task; with an empty task, all episodes."""

    task: str = ""
    detector: str = ""
    threshold: float = 0.0

    def values(self, low: int, high: int) -> dict[str, Any]:
        """Return the values of a query over the ids in (low, high]."""
        source = f"{_DETECTOR}{self.detector}"
        return {**self._asdict(), "source": source, "person": "person", "low": low, "high": high}


class Tallies:
    """Counts the episodes of an index and the verdicts on them."""

    def __init__(self, index: Index) -> None:
        """Use the tables of an index."""
        self._index = index

    def verdicts(self, task: str, detector: str, threshold: float, after: int) -> list[Tally]:
        """Count the verdicts on a task by commanded task and policy; those after an episode are counted apart."""
        subject, last = _Subject(task, detector, threshold), self._index.last()
        parts = ((False, 0, min(after, last)), (True, min(after, last), last))
        return [
            Tally(*kind, is_later, *counts)
            for is_later, low, high in parts
            for kind, counts in self._count(subject, low, high)
        ]

    def episodes(self) -> dict[tuple[str, str], int]:
        """Count all episodes by commanded task and policy."""
        return {kind: count for kind, (count, _) in self._count(_Subject(), 0, self._index.last())}

    def judged_until(self, tasks: Sequence[str], detector: str, after: int) -> int:
        """Return up to which episode, from `after` on, all are known to have verdicts on these tasks."""
        found = self._index.fetch(
            "SELECT block, count(*) FROM judged WHERE detector = ? AND block >= ? AND task IN "
            f"({', '.join('?' * len(tasks))}) GROUP BY block",
            (detector, after // BLOCK, *tasks),
        )
        whole = {block for block, count in found if count == len(tasks)}
        while tasks and after // BLOCK in whole:
            after = (after // BLOCK + 1) * BLOCK
        return after

    def mark_judged(self, tasks: Sequence[str], detector: str, episode: int) -> None:
        """Remember that the whole block of an episode is judged, if it is."""
        high = block_end(episode)
        with self._index.transaction() as connection:
            for task in tasks:
                connection.execute(
                    "INSERT OR IGNORE INTO judged SELECT :task, :detector, :block WHERE NOT EXISTS "
                    "(SELECT id FROM episode WHERE id > :low AND id <= :high AND length > 0 AND id NOT IN (SELECT "
                    "episode FROM label WHERE task = :task AND source = :source AND episode > :low "
                    "AND episode <= :high))",
                    {"block": high // BLOCK - 1, **_Subject(task, detector).values(high - BLOCK, high)},
                )

    def _count(self, subject: _Subject, low: int, high: int) -> list[tuple[tuple[str, str], tuple[int, int]]]:
        """Count the ids in (low, high] by commanded task and policy, in their order."""
        first, end = -(-low // BLOCK), high // BLOCK  # blocks that are whole
        if first >= end:
            rows = self._raw(subject, low, high)
        else:
            self._remember(subject, first, end)
            rows = self._raw(subject, low, first * BLOCK) + self._raw(subject, end * BLOCK, high)
            rows += self._index.fetch(
                f"SELECT commanded, policy, sum(episodes), sum(successes) FROM tally WHERE {_KEY} "
                "AND block >= :low AND block < :high GROUP BY commanded, policy",
                subject.values(first, end),
            )
        episodes, successes = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        for commanded, policy, count, won in rows:
            episodes[commanded, policy] += count
            successes[commanded, policy] += won
        return [(kind, (count, successes[kind])) for kind, count in sorted(episodes.items())]

    def _raw(self, subject: _Subject, low: int, high: int) -> list[tuple[Any, ...]]:
        return self._index.fetch(*_query(subject, low, high)) if low < high else []

    def _remember(self, subject: _Subject, first: int, end: int) -> None:
        """Count the whole blocks that are not remembered."""
        known = self._index.fetch(
            f"SELECT DISTINCT block FROM tally WHERE {_KEY} AND block >= :low AND block < :high",
            subject.values(first, end),
        )
        missing = sorted(set(range(first, end)).difference(block for (block,) in known))
        for start in range(0, len(missing), _TOGETHER):
            # A label that comes between the count and its record would be missed for ever, hence one transaction.
            with self._index.transaction() as connection:
                for block in missing[start : start + _TOGETHER]:
                    rows = connection.execute(*_query(subject, block * BLOCK, (block + 1) * BLOCK)).fetchall()
                    connection.executemany(
                        "INSERT OR REPLACE INTO tally(task, block, detector, threshold, commanded, policy, episodes, "
                        "successes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                        ((subject.task, block, subject.detector, subject.threshold, *row) for row in rows),
                    )


def _query(subject: _Subject, low: int, high: int) -> tuple[str, dict[str, Any]]:
    return _VERDICTS if subject.task else _EPISODES, subject.values(low, high)


def forget(connection: sqlite3.Connection, labels: Iterable[Label]) -> None:
    """Forget the counts that labels change; the caller has begun the transaction that adds them."""
    changed = {(one.task, (one.episode - 1) // BLOCK, one.source) for one in labels}
    for task, block, source in changed:
        if source == "person":
            connection.execute("DELETE FROM tally WHERE task = ? AND block = ?", (task, block))
        elif source.startswith(_DETECTOR):
            detector = source.removeprefix(_DETECTOR)
            connection.execute(
                "DELETE FROM tally WHERE task = ? AND block = ? AND detector = ?", (task, block, detector)
            )


def forget_detector(connection: sqlite3.Connection, detector: str) -> None:
    """Forget all counts of a detector whose verdicts are about to be removed."""
    for table in ("tally", "judged"):
        connection.execute(f"DELETE FROM {table} WHERE detector = ?", (detector,))
