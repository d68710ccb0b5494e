"""The index of a store in SQLite: where episodes are, what the simulator knows about them, and all labels.

Rows are only added, but for verdicts of detectors that are no longer used, which are removed. `label_table.py` has the
queries over labels, `tallies.py` counts. Several processes may have the index open (write-ahead log, one writer at a
time, the others wait). The log needs shared memory, so all of them must run on one machine.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from polytask.errors import UserError
from polytask.files.folder_lock import one_at_a_time
from polytask.mtopt.store.shards import Packed

VERSION = 1  # of the tables
# What later versions of this program added; it can be made from the rest at any time.
ADDED = """
CREATE INDEX IF NOT EXISTS episode_seed ON episode(seed);
CREATE INDEX IF NOT EXISTS episode_upload ON episode(id) WHERE length = 0;
CREATE TABLE IF NOT EXISTS tally(
    task TEXT NOT NULL, block INTEGER NOT NULL, detector TEXT NOT NULL, threshold REAL NOT NULL,
    commanded TEXT NOT NULL, policy TEXT NOT NULL, episodes INTEGER NOT NULL, successes INTEGER NOT NULL,
    PRIMARY KEY(task, block, detector, threshold, commanded, policy)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS judged(
    task TEXT NOT NULL, detector TEXT NOT NULL, block INTEGER NOT NULL,
    PRIMARY KEY(detector, block, task)) WITHOUT ROWID;
"""
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
{ADDED}
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


class Commanded(NamedTuple):
    """What lists of many episodes need of each."""

    id: int
    task: str  # commanded
    length: int  # actions


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
            elif not connection.execute("SELECT name FROM sqlite_master WHERE name = 'judged'").fetchone():
                connection.executescript(f"BEGIN; {ADDED} COMMIT;")
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
    def session(self) -> Iterator[sqlite3.Connection]:
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
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit all changes of the block, or none.

        Raises:
            UserError: If the file was removed or replaced, so that nobody would find the changes.
        """
        with self.session() as connection:
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

    def fetch(self, query: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        with self.session() as connection:
            return connection.execute(query, values).fetchall()

    def add_episodes(self, episodes: Iterable[tuple[str, Packed]]) -> list[int]:
        """Enter episodes whose bytes are in a shard, all or none, and return their ids in increasing order."""
        ids, truth = list[int](), list[tuple[int, str, int]]()
        with self.transaction() as connection:
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
        found = self.fetch(f"SELECT {_COLUMNS} FROM episode WHERE id > ? ORDER BY id LIMIT ?", values)
        return [EpisodeRow(*row) for row in found]

    def commanded(self, after: int, limit: int) -> list[Commanded]:
        """Return tasks and lengths of episodes with greater ids, in order."""
        query = "SELECT id, task, length FROM episode WHERE id > ? ORDER BY id LIMIT ?"
        return [Commanded(*row) for row in self.fetch(query, (after, limit))]

    def last(self) -> int:
        """Return the id of the last episode; 0 if there is none."""
        return int(self.fetch("SELECT coalesce(max(id), 0) FROM episode")[0][0])

    def examples(self) -> list[int]:
        """Return the episodes without actions."""
        return [one for (one,) in self.fetch("SELECT id FROM episode WHERE length = 0 ORDER BY id")]

    def first_made(self) -> int | None:
        """Return the first episode that has actions; None if there is none."""
        found = self.fetch("SELECT id FROM episode WHERE length > 0 ORDER BY id LIMIT 1")
        return found[0][0] if found else None

    def find(self, episodes: Collection[int]) -> list[EpisodeRow]:
        """Return these episodes, in the given order.

        Raises:
            UserError: If one does not exist.
        """
        chosen = "id IN (SELECT value FROM json_each(?))"
        found = self.fetch(f"SELECT {_COLUMNS} FROM episode WHERE {chosen}", (json.dumps(list(episodes)),))
        rows = {row[0]: EpisodeRow(*row) for row in found}
        for episode in episodes:
            if episode not in rows:
                low, high, count = self.fetch("SELECT min(id), max(id), count(*) FROM episode")[0]
                known = f"ids run from {low} to {high}" if count else "the store is empty"
                raise UserError(f"there is no episode {episode}; {known}")
        return [rows[episode] for episode in episodes]

    def count(self, table: str = "episode") -> int:
        """Count the rows of `episode` or `label`."""
        assert table in ("episode", "label")
        return int(self.fetch(f"SELECT count(*) FROM {table}")[0][0])

    def count_seed(self, seed: int) -> int:
        """Count the episodes of a seed."""
        return int(self.fetch("SELECT count(*) FROM episode WHERE seed = ?", (seed,))[0][0])

    def known(self, episodes: Collection[int]) -> set[int]:
        """Return those of the episodes that exist."""
        chosen = "SELECT id FROM episode WHERE id IN (SELECT value FROM json_each(?))"
        return {one for (one,) in self.fetch(chosen, (json.dumps(list(episodes)),))}

    def rows_of(self, shard: str) -> list[EpisodeRow]:
        """Return the episodes of a shard, in the order of their bytes."""
        query = f"SELECT {_COLUMNS} FROM episode WHERE shard = ? ORDER BY offset"
        return [EpisodeRow(*row) for row in self.fetch(query, (shard,))]

    def shards(self) -> list[str]:
        """Return the names of all shards that have episodes: one look into SQLite's index for each."""
        names = [""]
        while found := self.fetch("SELECT min(shard) FROM episode WHERE shard > ?", (names[-1],))[0][0]:
            names.append(found)
        return names[1:]

    def problem(self) -> str | None:
        """Return the first problem that SQLite finds in its own file; None if there is none."""
        found = self.fetch("PRAGMA integrity_check(1)")[0][0]
        return None if found == "ok" else str(found).splitlines()[-1]

    def end_of(self, shard: str) -> int:
        """Return the end of the last episode of a shard that the index lists."""
        return int(self.fetch("SELECT coalesce(max(offset + size), 0) FROM episode WHERE shard = ?", (shard,))[0][0])

    def truth(self, episode: int) -> dict[str, bool]:
        """Return the simulator's truth on an episode, by task."""
        found = self.fetch("SELECT task, value FROM truth WHERE episode = ?", (episode,))
        return {task: bool(value) for task, value in found}


def _inode(path: Path) -> int | None:
    """Return the number that tells a file from others of the same name; None if there is no file."""
    return os.stat(path).st_ino if path.exists() else None


def _close(connection: sqlite3.Connection, pid: int) -> None:
    """Close a connection in the process that opened it."""
    if os.getpid() == pid:
        connection.close()
