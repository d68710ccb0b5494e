"""Rebuild a lost or damaged index from the shards.

The shards hold the episodes and the simulator's truth. Ids and labels are taken from the damaged index as far as it can
be read. The new index is complete on the disk before anything else changes:

    index.rebuilt.sqlite      appears in one step when it is complete; from then on it is the index
    index.damaged-N.sqlite    the old file (or folder), which is renamed, never deleted
    index.sqlite              index.rebuilt.sqlite under its final name

A process that is killed in between is no problem: the next one starts again, or renames what is complete.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from polytask.errors import UserError
from polytask.files import can_write, write_atomically
from polytask.mtopt.store import check, shards
from polytask.mtopt.store.index import TABLES, DamagedIndexError, can_change, episode_values, index_lock, open_tables
from polytask.mtopt.store.shards import Packed

READY = "index.rebuilt.sqlite"
_EARLIEST = 1e9  # no label is older, s since 1970


class OldLabel(NamedTuple):
    """A row of the old table of labels."""

    episode: int  # its old id, which the new index keeps
    task: str
    source: str
    value: float | None
    made: float


@dataclass(frozen=True)
class OldRows:
    """What could be read of the old index."""

    ids: dict[tuple[str, int], int] = field(default_factory=dict)  # shard and offset -> id of the episode
    labels: list[OldLabel] = field(default_factory=list)


@dataclass(frozen=True)
class Rebuilt:
    """The result of a rebuild."""

    path: Path  # of the index
    reason: str  # what was wrong with the old one
    episodes: int
    labels: dict[str, int]  # labels that were recovered, by the kind of their source
    unreadable: int  # bytes of the shards that hold no whole episode
    aside: str | None  # new name of the old file

    def line(self) -> str:
        """Describe the problem and the result in one line."""
        return f"'{self.path}' {self.reason}; {self.summary()}"

    def summary(self) -> str:
        """Describe the result."""
        counts = ", ".join(f"{count} of {kind}" for kind, count in self.labels.items())
        labels = f"labels recovered: {counts}" if counts else "no label could be recovered"
        text = f"rebuilt from the shards: {self.episodes} episodes; {labels}"
        text += f"; {self.unreadable} bytes of the shards hold no whole episode" if self.unreadable else ""
        return text + (f"; the old file is now '{self.aside}'" if self.aside else "")


def finish(path: Path) -> None:
    """Give the index that a killed process has rebuilt its final name."""
    if path.with_name(READY).exists():
        with index_lock(path):
            _put_into_place(path)


def rebuild(path: Path, folder: Path, *, is_forced: bool = False) -> Rebuilt | None:
    """Replace an index that cannot be used.

    Args:
        path: The index.
        folder: The shards.
        is_forced: Also replace an index that can be opened, because its rows do not fit the shards.

    Returns:
        What was done; None if another process has done it meanwhile.

    Raises:
        UserError: If another process uses the store, or the disk refuses.
    """
    with index_lock(path):
        _put_into_place(path)
        reason = _reason(path, is_forced=is_forced)
        if reason is None:
            return None
        _require_unused(path, folder, reason)
        old = _salvage(path) if path.is_file() else OldRows()
        found, unreadable = _scan(folder)
        rows = _numbered(found, old)
        known = {number for number, _, _ in rows}
        labels = [label for label in old.labels if label.episode in known]
        write_atomically(path.with_name(READY), lambda temporary: _write(temporary, rows, labels))
        aside = _put_into_place(path)
    kinds = Counter(label.source.partition(":")[0] for label in labels)
    return Rebuilt(path, reason, len(rows), dict(sorted(kinds.items())), unreadable, aside)


def _reason(path: Path, *, is_forced: bool) -> str | None:
    """Return what is wrong with an index; None if nothing is."""
    try:
        open_tables(path, busy=0.0, durable=False, must_exist=True).close()
    except DamagedIndexError as error:
        return error.reason
    return "did not fit the shards" if is_forced else None


def _require_unused(path: Path, folder: Path, reason: str) -> None:
    """Check that no other process writes to the store: its rows would be lost.

    Raises:
        UserError: If another process has it open.
    """
    for shard in check.files(folder):
        with check.locked(shard) as is_ours:
            if not is_ours:
                raise UserError(
                    f"'{path}' {reason} while another process writes '{shard.name}'; end it, then try again"
                )
    if path.is_file():
        # Only the last user of a database can leave the write-ahead log. This also empties the log.
        with suppress(DamagedIndexError), can_change(path), closing(sqlite3.connect(path, timeout=1.0)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")


def _salvage(path: Path) -> OldRows:
    """Read ids and labels of a damaged index, as far as possible."""
    with closing(sqlite3.connect(path, timeout=1.0)) as connection:
        with suppress(sqlite3.DatabaseError, UnicodeDecodeError):
            connection.execute("PRAGMA writable_schema = ON")  # lets SQLite open a file that was cut off
        places = _readable(connection, "episode", "shard, offset")
        labels = _readable(connection, "label", "episode, task, source, value, made")
    ids = {(shard, offset): number for number, shard, offset in places if isinstance(offset, int)}
    return OldRows(ids, [label for _, *row in labels if _is_valid(label := OldLabel(*row))])


def _readable(connection: sqlite3.Connection, table: str, columns: str) -> list[tuple[Any, ...]]:
    """Read the rows of a table from both ends up to the first damaged page."""
    found: dict[int, tuple[Any, ...]] = {}
    for order in ("ASC", "DESC"):
        with suppress(sqlite3.DatabaseError, UnicodeDecodeError):
            for row in connection.execute(f"SELECT id, {columns} FROM {table} NOT INDEXED ORDER BY id {order}"):
                if row[0] in found:
                    break
                found[row[0]] = row
    return [found[number] for number in sorted(found)]


def _is_valid(label: OldLabel) -> bool:
    """Return whether a row of a damaged table can be a label: bytes that were lost are read as zeros."""
    has_value = label.value is None or (isinstance(label.value, float) and 0.0 <= label.value <= 1.0)
    words = [word for word in (label.task, label.source) if isinstance(word, str) and word and word.isprintable()]
    return has_value and len(words) == 2 and isinstance(label.made, float) and label.made > _EARLIEST


def _scan(folder: Path) -> tuple[list[tuple[str, Packed]], int]:
    """Find all whole episodes of all shards, in the order in which they were written, and count the other bytes."""
    found, unreadable = list[tuple[str, Packed]](), 0
    for path in check.files(folder):
        scan = shards.scan(path, skips_damage=True)
        found += [(path.name, one) for one in scan.episodes]
        unreadable += scan.left_over
    return sorted(found, key=check.written_order), unreadable


def _numbered(found: Iterable[tuple[str, Packed]], old: OldRows) -> list[tuple[int, str, Packed]]:
    """Give episodes their old ids, and those that the old index did not list new ones."""
    # Labels without an episode count too: their ids must not become those of other episodes.
    last = max([0, *old.ids.values(), *(label.episode for label in old.labels if isinstance(label.episode, int))])
    rows = []
    for shard, one in found:
        number = old.ids.get((shard, one.offset))
        if number is None:
            last += 1
            number = last
        rows.append((number, shard, one))
    return sorted(rows, key=lambda row: row[0])


def _write(path: Path, rows: Sequence[tuple[int, str, Packed]], labels: Sequence[OldLabel]) -> None:
    """Write a new index, in one file without a log."""
    with can_change(path), closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.executescript(f"BEGIN; {TABLES}")
        places = ((number, *episode_values(shard, one)) for number, shard, one in rows)
        connection.executemany(f"INSERT INTO episode VALUES ({', '.join('?' * 12)})", places)
        truth = ((number, task, int(value)) for number, _, one in rows for task, value in one.truth.items())
        connection.executemany("INSERT INTO truth VALUES (?, ?, ?)", truth)
        connection.executemany("INSERT INTO label VALUES (NULL, ?, ?, ?, ?, ?)", labels)
        connection.execute("COMMIT")


def _put_into_place(path: Path) -> str | None:
    """Rename the old files and then the rebuilt one, if there is one; return the new name of the old index."""
    ready = path.with_name(READY)
    if not ready.exists():
        return None
    number = 1
    while (aside := path.with_name(f"{path.stem}.damaged-{number}{path.suffix}")).exists():
        number += 1
    with can_write(path):
        # The log first: SQLite would apply an old log to the new index.
        log, memory = (path.with_name(path.name + end) for end in ("-wal", "-shm"))
        if log.exists():
            log.rename(aside.with_name(f"{aside.name}-wal"))
        memory.unlink(missing_ok=True)
        is_there = path.exists()
        if is_there:
            path.rename(aside)
        ready.rename(path)
    return aside.name if is_there else None
