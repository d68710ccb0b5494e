"""Rebuild a lost or damaged index from the shards.

The shards hold the episodes and the simulator's truth, `labels.jsonl` the labels of people and of their stand-in. Ids
and other labels are taken from the damaged index as far as it can be read. The new index is complete on the disk before
anything else changes:

    index.rebuilt.sqlite      appears in one step when it is complete; from then on it is the index
    index.damaged-N.sqlite    the old file (or folder), which is renamed, never deleted
    index.sqlite              index.rebuilt.sqlite under its final name

A process that is killed in between is no problem: the next one starts again, or renames what is complete.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from polytask.errors import UserError
from polytask.files import can_read, can_write, write_atomically
from polytask.mtopt.store import check, label_log, shards
from polytask.mtopt.store.index import (
    TABLES,
    DamagedIndexError,
    EpisodeRow,
    can_change,
    episode_values,
    index_lock,
    open_tables,
)

READY = "index.rebuilt.sqlite"
_EARLIEST = 1e9  # no label is older, s since 1970
_TOGETHER = 10_000  # episodes that are entered at once
_MOST = 2**48  # no store has as many rows: a larger id is a damaged one


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
    last: int = 0  # highest id that an episode ever had
    label_count: int = 0  # rows of labels that there were, as far as it is known


class _Written(NamedTuple):
    """What the new index holds."""

    episodes: int
    labels: Counter[str]  # by the kind of their source
    unreadable: int  # bytes of the shards that hold no whole episode
    dropped: int  # labels that were lost, as far as it is known


@dataclass(frozen=True)
class Rebuilt:
    """The result of a rebuild."""

    path: Path  # of the index
    reason: str  # what was wrong with the old one
    episodes: int
    labels: dict[str, int]  # labels that were recovered, by the kind of their source
    unreadable: int  # bytes of the shards that hold no whole episode
    aside: str | None  # new name of the old file
    dropped: int = 0  # labels that the old index had and the new one has not, as far as it is known

    def line(self) -> str:
        """Describe the problem and the result in one line."""
        return f"'{self.path}' {self.reason}; {self.summary()}"

    def summary(self) -> str:
        """Describe the result."""
        counts = ", ".join(f"{count} of {kind}" for kind, count in self.labels.items())
        labels = f"labels recovered: {counts}" if counts else "no label could be recovered"
        text = f"rebuilt from the shards: {self.episodes} episodes; {labels}"
        text += f"; labels dropped: {self.dropped}" if self.dropped else ""
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
        written: list[_Written] = []
        write_atomically(path.with_name(READY), lambda temporary: written.append(_write(temporary, folder, old)))
        aside = _put_into_place(path)
    new = written[0]
    kinds = dict(sorted(new.labels.items()))
    return Rebuilt(path, reason, new.episodes, kinds, new.unreadable, aside, new.dropped)


def _all_labels(connection: sqlite3.Connection, old: OldRows, path: Path) -> tuple[list[OldLabel], int]:
    """Return the labels of episodes that exist, from the file beside the shards and, where it has none, the old index.

    Also return how many are lost, with their episodes or as lines that cannot be read, as far as it is known.
    """

    def find(where: str, *values: Any) -> int | None:
        row = connection.execute(f"SELECT id FROM episode WHERE {where}", values).fetchone()
        return None if row is None else int(row[0])

    known = {one for one in {label.episode for label in old.labels} if find("id = ?", one)}
    kept = [label for label in old.labels if label.episode in known]
    lines, unreadable = label_log.read(path)
    if not lines:
        return kept, max(0, old.label_count - len(kept))
    places = ((find("shard = ? AND offset = ?", one.shard, one.offset), one) for one in lines)
    found = [
        OldLabel(episode, one.task, one.source, one.value, one.made) for episode, one in places if episode is not None
    ]
    again = {label[:3] for label in found}  # of these, the file has every answer in order
    labels = sorted([label for label in kept if label[:3] not in again] + found, key=lambda label: label.made)
    verdicts = sum(not label_log.is_logged(label.source) for label in old.labels if label.episode not in known)
    return labels, len(lines) - len(found) + unreadable + verdicts


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
        places = _readable(connection, "shard, offset", "episode NOT INDEXED", "id")
        # SQLite's indices repeat columns of the tables on other pages.
        places_again = _readable(
            connection, "shard, offset", "episode INDEXED BY sqlite_autoindex_episode_1", "shard {0}, offset"
        )
        rows = _readable(connection, "episode, task, source, value, made", "label NOT INDEXED", "id")
        rows_again = _readable(
            connection,
            "episode, task, source, value",
            "label INDEXED BY label_newest",
            "task {0}, source {0}, episode {0}, id",
        )
        counts = {table: _highest(connection, table) for table in ("episode", "label")}
    ids = _ids((places_again | places).values())
    labels = _labels(rows, rows_again)
    named = (label.episode for label in labels.values())
    last = max([counts["episode"], *ids.values(), *(one for one in named if isinstance(one, int) and one < _MOST)])
    in_order = [labels[number] for number in sorted(labels)]
    return OldRows(ids, in_order, last, counts["label"] or len(labels))


def _readable(connection: sqlite3.Connection, columns: str, place: str, order: str) -> dict[int, tuple[Any, ...]]:
    """Read the rows of a table or index by their ids, from both ends up to the first damaged page.

    Args:
        connection: The damaged index.
        columns: To read after the id.
        place: The table, and which of its indices to use.
        order: Columns to sort by, so that SQLite goes through the place from one end; {0} is the direction.
    """
    found: dict[int, tuple[Any, ...]] = {}
    for direction in ("ASC", "DESC"):
        by = f"{order.format(direction)} {direction}"
        with suppress(sqlite3.DatabaseError, UnicodeDecodeError):
            for row in connection.execute(f"SELECT id, {columns} FROM {place} ORDER BY {by}"):
                if row[0] in found:
                    break
                found[row[0]] = row
    return found


def _highest(connection: sqlite3.Connection, table: str) -> int:
    """Return the highest id that SQLite has given to a row of a table; 0 if that cannot be read."""
    with suppress(sqlite3.DatabaseError, UnicodeDecodeError):
        for (number,) in connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)):
            if isinstance(number, int) and 0 < number < _MOST:
                return number
    return 0


def _ids(places: Iterable[tuple[Any, ...]]) -> dict[tuple[str, int], int]:
    """Return the ids of episodes by their places."""
    return {
        (shard, offset): number
        for number, shard, offset in places
        if isinstance(offset, int) and isinstance(number, int) and 0 < number < _MOST
    }


def _labels(rows: dict[int, tuple[Any, ...]], again: dict[int, tuple[Any, ...]]) -> dict[int, OldLabel]:
    """Return the labels by their ids, from the rows of the table and, where these are lost, from those of its index."""
    found = {number: label for number, (_, *row) in rows.items() if _is_valid(label := OldLabel(*row))}
    labels, made = dict(found), min((label.made for label in found.values()), default=_EARLIEST + 1)
    for number in sorted(found.keys() | again.keys()):
        if number in found:
            made = found[number].made
            continue
        _, episode, task, source, value = again[number]
        label = OldLabel(episode, task, source, value, made)  # the index has no times, but rows are in their order
        if _is_valid(label):
            labels[number] = label
    return labels


def _is_valid(label: OldLabel) -> bool:
    """Return whether a row of a damaged table can be a label: bytes that were lost are read as zeros."""
    has_value = label.value is None or (isinstance(label.value, float) and 0.0 <= label.value <= 1.0)
    words = [word for word in (label.task, label.source) if isinstance(word, str) and word and word.isprintable()]
    return has_value and len(words) == 2 and isinstance(label.made, float) and label.made > _EARLIEST


def _write(path: Path, folder: Path, old: OldRows) -> _Written:
    """Write a new index of all shards, in one file without a log; SQLite holds what may not fit into memory."""
    with can_change(path), closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.executescript(f"BEGIN; {TABLES}")
        unreadable = _scan(connection, folder)
        episodes, last = _enter(connection, old)
        labels, dropped = _all_labels(connection, old, folder.parent / label_log.NAME)
        connection.executemany("INSERT INTO label VALUES (NULL, ?, ?, ?, ?, ?)", labels)
        connection.execute("DELETE FROM sqlite_sequence WHERE name = 'episode'")  # it has no row if there is no episode
        connection.execute("INSERT INTO sqlite_sequence VALUES ('episode', ?)", (last,))
        connection.execute("COMMIT")
    return _Written(episodes, Counter(label.source.partition(":")[0] for label in labels), unreadable, dropped)


def _scan(connection: sqlite3.Connection, folder: Path) -> int:
    """List all whole episodes of all shards in the table `found`, and count the other bytes."""
    places = ", ".join("?" * (len(EpisodeRow._fields) - 1))
    connection.execute(f"CREATE TEMP TABLE found({', '.join(EpisodeRow._fields[1:])}, truth TEXT)")
    unreadable = 0
    for path in check.files(folder):
        with can_read(path):
            scan = shards.scan(path, skips_damage=True)
        rows = ((*episode_values(path.name, one), json.dumps(dict(one.truth))) for one in scan.episodes)
        connection.executemany(f"INSERT INTO found VALUES ({places}, ?)", rows)
        unreadable += scan.left_over
    return unreadable


def _enter(connection: sqlite3.Connection, old: OldRows) -> tuple[int, int]:
    """Enter the found episodes: old ones with their ids, those that the old index did not list with new ones.

    Returns:
        Their number, and the highest id that an episode ever had.
    """
    # Ids of removed episodes count too: labels and notes that name them must not become those of other episodes. If
    # nothing names an id, the order of the episodes is the best guess.
    last, count = old.last if old.ids or old.labels else 0, 0
    rows = connection.execute("SELECT * FROM found ORDER BY started, shard, offset")
    while some := rows.fetchmany(_TOGETHER):
        episodes, truths = list[tuple[Any, ...]](), list[tuple[int, str, int]]()
        for *values, truth in some:
            number = old.ids.get((values[0], values[1]))
            if number is None:
                last += 1
                number = last
            episodes.append((number, *values))
            truths += [(number, task, int(value)) for task, value in json.loads(truth).items()]
        connection.executemany(f"INSERT INTO episode VALUES ({', '.join('?' * len(EpisodeRow._fields))})", episodes)
        connection.executemany("INSERT INTO truth VALUES (?, ?, ?)", truths)
        count += len(some)
    highest = connection.execute("SELECT coalesce(max(id), 0) FROM episode").fetchone()[0]
    return count, max(last, old.last, highest)


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
