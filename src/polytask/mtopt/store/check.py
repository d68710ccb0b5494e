"""Compare the shards with the index, and enter episodes that the index lacks."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from polytask.files import can_read, can_write
from polytask.files.folder_lock import one_at_a_time
from polytask.mtopt.store import shards
from polytask.mtopt.store.index import EpisodeRow, Index, episode_values
from polytask.mtopt.store.png import DamagedError
from polytask.mtopt.store.shards import Packed


@dataclass(frozen=True)
class Tail:
    """Bytes at the end of a shard that belong to no row of the index."""

    shard: str
    offset: int
    size: int
    episodes: int  # whole episodes in these bytes, which `recover` enters
    left_over: int  # bytes of no whole episode
    torn: int = 0  # of these, bytes of an unfinished episode at the end; the others are of damaged ones


@dataclass(frozen=True)
class StoreReport:
    """The result of `check`."""

    episodes: int  # rows of the index
    labels: int  # rows, including outdated ones
    shards: int  # files
    size: int  # bytes of the shards
    writing: tuple[str, ...] = ()  # shards that a living writer has open
    tails: tuple[Tail, ...] = ()  # left by writers that were killed
    lost: tuple[int, ...] = ()  # episodes without bytes: a shard is missing or shorter than the index says
    damaged: dict[int, str] = field(default_factory=dict)  # episode -> what is wrong; only with `deep`

    @property
    def is_sound(self) -> bool:
        """Return whether every episode of the index can be read, as far as it was checked."""
        return not self.lost and not self.damaged

    def lines(self) -> list[str]:
        """Describe the result in lines of text."""
        text = [f"{self.episodes} episodes and {self.labels} labels; {self.shards} shards, {self.size / 1e6:.1f} MB"]
        text += [f"{name}: being written" for name in self.writing]
        text += [
            f"{tail.shard}: after byte {tail.offset}, {tail.episodes} whole episodes are not in the index and "
            f"{tail.left_over} bytes belong to no whole episode"
            for tail in self.tails
        ]
        text += [f"episode {episode}: its bytes are missing" for episode in self.lost]
        return text + [f"episode {episode}: {problem}" for episode, problem in self.damaged.items()]


def check(folder: Path, index: Index, *, deep: bool) -> StoreReport:
    """Look for the traces of killed writers and broken disks; write nothing.

    Args:
        folder: Of the shards.
        index: Rows to compare them with.
        deep: Read every episode and compare checksums, not only sizes.
    """
    writing: list[str] = []
    tails: list[Tail] = []
    damaged: dict[int, str] = {}
    for path in files(folder):
        with locked(path) as is_ours:
            if not is_ours:
                writing.append(path.name)
            elif found := _tail(path, index):
                tails.append(found)
    episodes, lost = 0, list[int]()
    for shard in index.shards():
        # One shard at a time: the rows of all of them may not fit into memory. They are read before the size, because
        # an episode's bytes are written before its row.
        rows, path = index.rows_of(shard), folder / shard
        size = path.stat().st_size if path.exists() else 0
        gone = {row.id for row in rows if row.offset + row.size > size}
        episodes, lost = episodes + len(rows), [*lost, *gone]
        if deep and len(gone) < len(rows):
            damaged |= _damaged(path, [row for row in rows if row.id not in gone], index)
    sizes = [path.stat().st_size for path in files(folder)]
    return StoreReport(
        episodes,
        index.count("label"),
        len(sizes),
        sum(sizes),
        tuple(writing),
        tuple(tails),
        tuple(sorted(lost)),
        dict(sorted(damaged.items())),
    )


def recover(folder: Path, index: Index) -> int:
    """Enter whole episodes that the index lacks, from shards without a living writer, and return their number.

    Episodes are entered in the order in which they were appended, so the episodes of a single writer get their old ids.
    """
    found = []
    with one_at_a_time(folder.parent / "recover.lock"):
        for path in files(folder):
            with locked(path) as is_ours:
                if is_ours:
                    tail = shards.scan(path, index.end_of(path.name), skips_damage=True)
                    found += [(path.name, one) for one in tail.episodes]
        found.sort(key=written_order)
        index.add_episodes(found)
    return len(found)


def cut_tail(path: Path, index: Index) -> int:
    """Cut off an unfinished episode at the end of a shard without a living writer; return the number of bytes.

    Damaged episodes stay: after a rebuild the index does not list them, but their bytes may be all that is left.
    """
    with locked(path) as is_ours:
        start = shards.torn_start(path, index.end_of(path.name))
        size = path.stat().st_size - start
        if not is_ours or not size:
            return 0
        with can_write(path):
            os.truncate(path, start)
    return size


def written_order(item: tuple[str, Packed]) -> tuple[float, str, int]:
    """Return the key that sorts episodes, with their shards, in the order in which they were written."""
    shard, one = item
    return one.header["started"], shard, one.offset


def files(folder: Path) -> list[Path]:
    """List the shards."""
    return sorted(path for path in folder.glob("*.tar") if path.is_file())


def _tail(path: Path, index: Index) -> Tail | None:
    """Describe the bytes at the end of a shard that the index does not list."""
    start = index.end_of(path.name)
    if path.stat().st_size <= start:
        return None
    found = shards.scan(path, start, skips_damage=True)
    if not found.episodes and not found.left_over:
        return None
    size = path.stat().st_size
    torn = min(found.left_over, size - shards.torn_start(path, start))
    return Tail(path.name, start, size - start, len(found.episodes), found.left_over, torn)


def _damaged(path: Path, rows: Sequence[EpisodeRow], index: Index) -> dict[int, str]:
    """Read all episodes of a shard and return those that are damaged, or that the index describes differently."""
    wrong = {}
    with path.open("rb") as file:
        for row in rows:
            file.seek(row.offset)
            try:
                shards.unpack(file.read(row.size))
            except DamagedError as error:
                wrong[row.id] = str(error)
                continue
            found = shards.scan_one(file, row.offset)
            if found is None or [*row[1:]] != episode_values(path.name, found) or index.truth(row.id) != found.truth:
                wrong[row.id] = "the index and its shard differ"
    return wrong


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Lock a file against writers; yield False if a writer has it.

    Raises:
        UserError: If the operating system refuses to read it.
    """
    with can_read(path):
        file = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(file)
