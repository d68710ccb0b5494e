"""The index of a store in SQLite: where episodes are, what the simulator knows about them, and all labels.

Rows are only added, but for verdicts of detectors that are no longer used, which are removed. The newest label of an
episode, task and source counts; the reward of a task is a query over these labels. Several processes may have the index
open (write-ahead log, one writer at a time, the others wait). The log needs shared memory, so all of them must run on
one machine.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from polytask.errors import UserError
from polytask.files.folder_lock import one_at_a_time
from polytask.mtopt.records import Label
from polytask.mtopt.store.label_log import LoggedLabel
from polytask.mtopt.store.shards import Packed

VERSION = 1  # of the tables
TABLES = f"""
CREATE TABLE IF NOT EXISTS episode(
    id INTEGER PRIMARY KEY AUTOINCREMENT, shard TEXT NOT NULL, offset INTEGER NOT NULL, size INTEGER NOT NULL,
    outcome_offset INTEGER NOT NULL, outcome_size INTEGER NOT NULL, views INTEGER NOT NULL, task TEXT NOT NULL,
    policy TEXT NOT NULL, seed INTEGER NOT NULL, length INTEGER NOT NULL, started REAL NOT NULL, UNIQUE(shard, offset));
CREATE INDEX IF NOT EXISTS episode_task ON episode(task, id);
CREATE TABLE IF NOT EXISTS truth(
    episode INTEGER NOT NULL REFERENCES episode(id), task TEXT NOT NULL, value INTEGER NOT NULL,
    PRIMARY KEY(episode, task)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS label(
    id INTEGER PRIMARY KEY AUTOINCREMENT, episode INTEGER NOT NULL REFERENCES episode(id), task TEXT NOT NULL,
    source TEXT NOT NULL, value REAL, made REAL NOT NULL);
CREATE INDEX IF NOT EXISTS label_newest ON label(task, source, episode, id, value);
PRAGMA user_version = {VERSION};
"""
# Kinds of errors with which SQLite reports that the system refuses to read or write.
_REFUSED = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
)
_INHERITED: list[sqlite3.Connection] = []
_COLUMNS = "id, shard, offset, size, outcome_offset, outcome_size, views, task, policy, seed, length, started"


class EpisodeRow(NamedTuple):
    """One episode of the index."""

    id: int
    shard: str  # file name
    offset: int  # of its first byte in the shard
    size: int  # bytes
    outcome_offset: int  # of the picture of its end
    outcome_size: int
    views: int
    task: str  # commanded
    policy: str
    seed: int
    length: int  # actions
    started: float  # when it was appended, s since 1970


class Tally(NamedTuple):
    """Episodes with a verdict on a task, of one commanded task and policy."""

    commanded: str
    policy: str
    is_later: bool  # after the episode that was asked about
    episodes: int
    successes: int


class DamagedIndexError(UserError):
    """The index cannot be used, but it can be rebuilt from the shards."""

    def __init__(self, path: Path, reason: str) -> None:
        """Explain what is wrong with the file, such as "is missing"."""
        super().__init__(f"'{path}' {reason}; `polytask mtopt check run_dir={path.parent} repair=true` rebuilds it")
        self.reason = reason


@contextmanager
def can_change(path: Path) -> Iterator[None]:
    """Turn an error of SQLite into a line that names the file.

    Raises:
        DamagedIndexError: If the content of the file is damaged.
        UserError: If the disk or another process prevents the change.
    """
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.ProgrammingError):  # a wrong episode, or a mistake in this program
        raise
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF  # the kind, without its details
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise UserError(f"'{path}' is in use by another process; wait for it or end it") from error
        if code in _REFUSED and not path.is_dir():
            raise UserError(f"cannot write '{path}': {error}") from error
        raise DamagedIndexError(path, f"is damaged ({error})") from error
    except UnicodeDecodeError as error:  # Python cannot decode a damaged text, or SQLite's message about it
        raise DamagedIndexError(path, "is damaged (a text in it is not UTF-8)") from error


def index_lock(path: Path) -> AbstractContextManager[None]:
    """Let one process at a time create, open or rebuild an index."""
    return one_at_a_time(path.with_suffix(".lock"))


def open_tables(path: Path, *, busy: float, durable: bool, must_exist: bool) -> sqlite3.Connection:
    """Open an index, or create it; the caller has `index_lock`.

    Args:
        path: Of the database.
        busy: How long to wait for another writer, s.
        durable: Wait for the disk at every change; otherwise a power cut may undo the last changes.
        must_exist: There are episodes, so a missing or empty index is a damage.

    Raises:
        DamagedIndexError: If it is no index.
        UserError: If it is of another version, or the disk refuses.
    """
    if must_exist and not path.exists():
        raise DamagedIndexError(path, "is missing")
    has_log = path.with_name(f"{path.name}-wal").exists()
    with can_change(path):
        connection = sqlite3.connect(path, timeout=busy, isolation_level=None, check_same_thread=False)
        try:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version == 0 and must_exist:
                raise DamagedIndexError(path, "is empty")
            if version not in (0, VERSION):
                raise UserError(f"'{path}' has version {version}; this program reads version {VERSION}")
            # SQLite notices missing pages, but not a last page that was cut off. The log may hold the rest of it.
            if not has_log and path.stat().st_size % connection.execute("PRAGMA page_size").fetchone()[0]:
                raise DamagedIndexError(path, "is damaged (its end is cut off)")
            # The switch to the write-ahead log does not wait for others, hence the lock.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            connection.execute("PRAGMA foreign_keys = ON")
            if version == 0:
                connection.executescript(f"BEGIN; {TABLES} COMMIT;")
        except BaseException:
            connection.close()
            raise
    return connection


def episode_values(shard: str, one: Packed) -> list[Any]:
    """Return the values of an episode's row after its id."""
    places = [shard, one.offset, one.size, one.outcome_offset, one.outcome_size]
    return places + [one.header[name] for name in ("views", "task", "policy", "seed", "length", "started")]


class Index:
    """The tables. Threads of a process share one connection; a forked process opens its own."""

    def __init__(self, path: Path, *, busy: float, durable: bool, must_exist: bool = False) -> None:
        """Open or create the tables; see `open_tables`."""
        self.path, self._busy, self._durable, self._must_exist = path, busy, durable, must_exist
        self._lock = threading.RLock()
        self._connect()

    def _connect(self) -> None:
        self._pid = os.getpid()
        with index_lock(self.path):
            self._connection = open_tables(
                self.path, busy=self._busy, durable=self._durable, must_exist=self._must_exist
            )
            self._inode = _inode(self.path)
        self._finalizer = weakref.finalize(self, _close, self._connection, self._pid)

    def close(self) -> None:
        """Close the connection."""
        self._finalizer()

    @contextmanager
    def _session(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection to one thread at a time."""
        with self._lock:
            if self._pid != os.getpid():
                # A forked process must not close its parent's connection, nor let the garbage collector close it.
                self._finalizer.detach()
                _INHERITED.append(self._connection)
                self._connect()
            with can_change(self.path):
                yield self._connection

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit all changes of the block, or none.

        Raises:
            UserError: If the file was removed or replaced, so that nobody would find the changes.
        """
        with self._session() as connection:
            if _inode(self.path) != self._inode:
                raise UserError(f"'{self.path}' was removed or replaced while this process used it; start it again")
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _all(self, query: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
        with self._session() as connection:
            return connection.execute(query, values).fetchall()

    def add_episodes(self, episodes: Iterable[tuple[str, Packed]]) -> list[int]:
        """Enter episodes whose bytes are in a shard, all or none, and return their ids in increasing order."""
        ids, truth = list[int](), list[tuple[int, str, int]]()
        with self._transaction() as connection:
            for shard, one in episodes:
                cursor = connection.execute(
                    f"INSERT INTO episode({_COLUMNS}) VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    episode_values(shard, one),
                )
                ids.append(int(cursor.lastrowid or 0))
                truth += [(ids[-1], task, int(value)) for task, value in one.truth.items()]
            connection.executemany("INSERT INTO truth VALUES (?, ?, ?)", truth)
        return ids

    def rows(self, after: int, limit: int | None) -> list[EpisodeRow]:
        """Return episodes with greater ids, in order."""
        values = (after, -1 if limit is None else limit)
        found = self._all(f"SELECT {_COLUMNS} FROM episode WHERE id > ? ORDER BY id LIMIT ?", values)
        return [EpisodeRow(*row) for row in found]

    def last(self) -> int:
        """Return the id of the last episode; 0 if there is none."""
        return int(self._all("SELECT coalesce(max(id), 0) FROM episode")[0][0])

    def examples(self) -> list[int]:
        """Return the episodes without actions."""
        return [one for (one,) in self._all("SELECT id FROM episode WHERE length = 0 ORDER BY id")]

    def first_made(self) -> int | None:
        """Return the first episode that has actions; None if there is none."""
        found = self._all("SELECT id FROM episode WHERE length > 0 ORDER BY id LIMIT 1")
        return found[0][0] if found else None

    def find(self, episodes: Collection[int]) -> list[EpisodeRow]:
        """Return these episodes, in the given order.

        Raises:
            UserError: If one does not exist.
        """
        chosen = "id IN (SELECT value FROM json_each(?))"
        found = self._all(f"SELECT {_COLUMNS} FROM episode WHERE {chosen}", (json.dumps(list(episodes)),))
        rows = {row[0]: EpisodeRow(*row) for row in found}
        for episode in episodes:
            if episode not in rows:
                low, high, count = self._all("SELECT min(id), max(id), count(*) FROM episode")[0]
                known = f"ids run from {low} to {high}" if count else "the store is empty"
                raise UserError(f"there is no episode {episode}; {known}")
        return [rows[episode] for episode in episodes]

    def counts(self) -> tuple[int, int]:
        """Count the episodes and the labels."""
        episodes, labels = self._all("SELECT (SELECT count(*) FROM episode), (SELECT count(*) FROM label)")[0]
        return episodes, labels

    def problem(self) -> str | None:
        """Return the first problem that SQLite finds in its own file; None if there is none."""
        found = self._all("PRAGMA integrity_check(1)")[0][0]
        return None if found == "ok" else str(found).splitlines()[-1]

    def end_of(self, shard: str) -> int:
        """Return the end of the last episode of a shard that the index lists."""
        return int(self._all("SELECT coalesce(max(offset + size), 0) FROM episode WHERE shard = ?", (shard,))[0][0])

    def truth(self, episode: int) -> dict[str, bool]:
        """Return the simulator's truth on an episode, by task."""
        found = self._all("SELECT task, value FROM truth WHERE episode = ?", (episode,))
        return {task: bool(value) for task, value in found}

    def truths(self, task: str) -> dict[int, bool]:
        """Return the simulator's truth on a task, by episode."""
        found = self._all("SELECT episode, value FROM truth WHERE task = ? ORDER BY episode", (task,))
        return {episode: bool(value) for episode, value in found}

    def add_labels(self, labels: Sequence[Label]) -> float:
        """Append labels, all or none, and return the time that they carry.

        Raises:
            UserError: If an episode does not exist.
        """
        now = time.time()
        # SQLite stores NaN as NULL.
        rows = ((one.episode, one.task, one.source, one.value, now) for one in labels)
        statement = "INSERT INTO label(episode, task, source, value, made) VALUES (?, ?, ?, ?, ?)"
        try:
            with self._transaction() as connection:
                connection.executemany(statement, rows)
        except sqlite3.IntegrityError as error:
            known = {one for (one,) in self._all("SELECT id FROM episode")}
            unknown = sorted({one.episode for one in labels} - known)
            raise UserError(f"there is no episode {unknown[0]} to label; none of the labels was added") from error
        return now

    def logged_labels(self) -> list[LoggedLabel]:
        """Return all labels that are not verdicts of detectors, with the places of their episodes, in order."""
        found = self._all(
            "SELECT shard, offset, label.task, source, value, made FROM label JOIN episode ON episode.id = episode "
            "WHERE source NOT LIKE 'detector:%' ORDER BY label.id"
        )
        return [LoggedLabel(*row) for row in found]

    def labels(self, task: str | None, source: str | None) -> list[Label]:
        """Return the labels that count, the newest last."""
        given: Mapping[str, str | None] = {"task": task, "source": source}
        chosen = [f"{name} = ?" for name, value in given.items() if value is not None]
        where = f"WHERE {' AND '.join(chosen)}" if chosen else ""
        # With max(), SQLite returns the other columns of the row that holds the maximum.
        query = f"SELECT episode, task, value, source, max(id) FROM label {where} GROUP BY task, source, episode"
        values = [value for value in given.values() if value is not None]
        found = sorted(self._all(query, values), key=lambda row: row[4])
        return [Label(*row[:4]) for row in found if row[2] is not None]

    def newest(self, task: str, source: str, after: int, until: int) -> dict[int, float]:
        """Return the newest values of a source on a task, by episode in (after, until]."""
        found = self._all(
            "SELECT episode, value, max(id) FROM label WHERE task = ? AND source = ? AND episode > ? AND episode <= ? "
            "GROUP BY episode",
            (task, source, after, until),
        )
        return {episode: value for episode, value, _ in found if value is not None}

    def tally(self, task: str, detector: str, threshold: float, after: int) -> list[Tally]:
        """Count the verdicts on a task by commanded task and policy; a person's label outranks the detector's.

        SQLite counts, so that a store of millions of episodes does not pass through Python.
        """
        newest = "SELECT episode, value, max(id) FROM label WHERE task = :task AND source = {0} GROUP BY episode"
        query = (
            f"WITH said AS ({newest.format(':detector')}), told AS ({newest.format(':person')}), "
            "verdict AS (SELECT episode, value > 0.5 AS won FROM told WHERE value IS NOT NULL UNION ALL "
            "SELECT episode, value > :threshold FROM said WHERE value IS NOT NULL AND episode NOT IN "
            "(SELECT episode FROM told WHERE value IS NOT NULL)) "
            "SELECT e.task, e.policy, e.id > :after AS later, count(*), sum(won) FROM verdict "
            "JOIN episode AS e ON e.id = verdict.episode WHERE e.length > 0 GROUP BY e.task, e.policy, later"
        )
        values = {"task": task, "detector": detector, "person": "person", "threshold": threshold, "after": after}
        return [
            Tally(commanded, policy, bool(later), *counts)
            for commanded, policy, later, *counts in self._all(query, values)
        ]

    def counts_by(self, column: str) -> dict[str, int]:
        """Count the episodes by task or by policy."""
        assert column in ("task", "policy")
        return dict(self._all(f"SELECT {column}, count(*) FROM episode GROUP BY {column} ORDER BY {column}"))

    def label_counts(self, source: str) -> dict[str, int]:
        """Count the labels of a source that count, by task."""
        newest = "SELECT task, value, max(id) FROM label WHERE source = ? GROUP BY task, episode"
        found = self._all(f"SELECT task, count(value) FROM ({newest}) GROUP BY task", (source,))
        return {task: count for task, count in found if count}

    def prune_verdicts(self, keep: str) -> int:
        """Remove the verdicts of all detectors but one, and return their number; people's labels stay."""
        with self._transaction() as connection:
            cursor = connection.execute("DELETE FROM label WHERE source LIKE 'detector:%' AND source != ?", (keep,))
        return cursor.rowcount

    def unlabelled(self, task: str, source: str, after: int, until: int) -> list[int]:
        """Return the episodes in (after, until] that a source has not labelled for a task."""
        found = self._all(
            "SELECT id FROM episode WHERE id > ? AND id <= ? AND id NOT IN "
            "(SELECT episode FROM label WHERE task = ? AND source = ? AND episode > ? AND episode <= ?) ORDER BY id",
            (after, until, task, source, after, until),
        )
        return [episode for (episode,) in found]


def _inode(path: Path) -> int | None:
    """Return the number that tells a file from others of the same name; None if there is no file."""
    return os.stat(path).st_ino if path.exists() else None


def _close(connection: sqlite3.Connection, pid: int) -> None:
    """Close a connection in the process that opened it."""
    if os.getpid() == pid:
        connection.close()
