"""Compare the shards with the index, and enter episodes that the index lacks."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from polytask.mtopt.store import shards
from polytask.mtopt.store.index import Index
from polytask.mtopt.store.png import DamagedError


@dataclass(frozen=True)
class Tail:
    """Bytes at the end of a shard that belong to no row of the index."""

    shard: str
    offset: int
    size: int
    episodes: int  # whole episodes in these bytes, which `recover` enters
    left_over: int  # bytes of an unfinished episode


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
            f"{tail.left_over} bytes belong to an unfinished episode"
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
    for path in _files(folder):
        with _lock(path) as is_ours:
            if not is_ours:
                writing.append(path.name)
            elif found := _tail(path, index):
                tails.append(found)
    places = index.places()  # read before the sizes: an episode's bytes are written before its row
    episodes, labels = index.counts()
    sizes = {path.name: path.stat().st_size for path in _files(folder)}
    lost = [
        episode
        for shard, rows in places.items()
        for episode, offset, size in rows
        if offset + size > sizes.get(shard, 0)
    ]
    if deep:
        gone = set(lost)
        for shard, rows in places.items():
            damaged |= _damaged(folder / shard, [row for row in rows if row[0] not in gone])
    return StoreReport(
        episodes, labels, len(sizes), sum(sizes.values()), tuple(writing), tuple(tails), tuple(sorted(lost)), damaged
    )


def recover(folder: Path, index: Index) -> int:
    """Enter whole episodes that the index lacks, from shards without a living writer, and return their number.

    Episodes are entered in the order in which they were appended, so the episodes of a single writer get their old ids.
    """
    found = []
    with _one_at_a_time(folder.parent / "recover.lock"):
        for path in _files(folder):
            with _lock(path) as is_ours:
                if is_ours:
                    found += [(path.name, one) for one in shards.scan(path, index.end_of(path.name)).episodes]
        found.sort(key=lambda item: (item[1].header["started"], item[0], item[1].offset))
        index.add_episodes(found)
    return len(found)


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.tar"))


def _tail(path: Path, index: Index) -> Tail | None:
    """Describe the bytes at the end of a shard that the index does not list."""
    start = index.end_of(path.name)
    if path.stat().st_size <= start:
        return None
    found = shards.scan(path, start)
    if not found.episodes and not found.left_over:
        return None
    size = found.end - start + found.left_over
    return Tail(path.name, start, size, len(found.episodes), found.left_over)


def _damaged(path: Path, rows: list[tuple[int, int, int]]) -> dict[int, str]:
    """Read all episodes of a shard and return those that are damaged."""
    wrong = {}
    if rows:
        with path.open("rb") as file:
            for episode, offset, size in rows:
                file.seek(offset)
                try:
                    shards.unpack(file.read(size))
                except DamagedError as error:
                    wrong[episode] = str(error)
    return wrong


@contextmanager
def _lock(path: Path) -> Iterator[bool]:
    """Lock a file against writers; yield False if a writer has it."""
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


@contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    """Run the block in one process at a time."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
