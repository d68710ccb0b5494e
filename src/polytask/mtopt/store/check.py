"""Compare the shards with the index, and enter what only the shards know."""

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
    """Bytes at the end of a shard that no row of the index names."""

    shard: str
    offset: int
    size: int
    episodes: int  # whole ones among it, which `recover` enters
    left_over: int  # bytes of an episode that was never finished


@dataclass(frozen=True)
class StoreReport:
    """What `check` found."""

    episodes: int  # rows of the index
    labels: int  # rows, outdated ones included
    shards: int  # files
    size: int  # bytes of them
    writing: tuple[str, ...] = ()  # shards whose writer is alive
    tails: tuple[Tail, ...] = ()  # left by writers that were killed
    lost: tuple[int, ...] = ()  # episodes whose bytes are gone: a shard is missing or shorter than the index says
    damaged: dict[int, str] = field(default_factory=dict)  # episode -> what is wrong; empty unless asked for

    @property
    def is_sound(self) -> bool:
        """Tell whether every episode of the index can be read, as far as was looked at."""
        return not self.lost and not self.damaged

    def lines(self) -> list[str]:
        """Say it in words."""
        text = [f"{self.episodes} episodes and {self.labels} labels; {self.shards} shards, {self.size / 1e6:.1f} MB"]
        text += [f"{name}: being written" for name in self.writing]
        text += [
            f"{tail.shard}: behind byte {tail.offset}, {tail.episodes} whole episodes are not in the index and "
            f"{tail.left_over} bytes belong to an unfinished one"
            for tail in self.tails
        ]
        text += [f"episode {episode}: its bytes are gone" for episode in self.lost]
        return text + [f"episode {episode}: {problem}" for episode, problem in self.damaged.items()]


def check(folder: Path, index: Index, *, deep: bool) -> StoreReport:
    """Look for what killed writers and broken disks leave behind; writes nothing.

    Args:
        folder: Of the shards.
        index: Rows to compare them with.
        deep: Read every episode and compare checksums, instead of sizes only.
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
    places = index.places()  # asked before the sizes: bytes are there before their row is
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
    """Enter every whole episode of shards without a living writer that the index lacks, and return their number.

    Episodes are entered in the order in which they were appended, so a store of one writer gets back the ids it had.
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
    """Describe what the index does not name at the end of a shard."""
    start = index.end_of(path.name)
    if path.stat().st_size <= start:
        return None
    found = shards.scan(path, start)
    if not found.episodes and not found.left_over:
        return None
    size = found.end - start + found.left_over
    return Tail(path.name, start, size, len(found.episodes), found.left_over)


def _damaged(path: Path, rows: list[tuple[int, int, int]]) -> dict[int, str]:
    """Read all episodes of a shard and name those that are not what was written."""
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
    """Keep writers off a file, and tell whether there was none."""
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
    """Let one process in and the others wait."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
