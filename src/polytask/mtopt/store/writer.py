"""Append episodes to shards.

A writer always starts a new file and holds a lock on it as long as it lives, so no two writers share a file, and no
writer continues the file of a killed one. Order of an append: the bytes are written, the disk confirms them (unless
`fsync` is off), then one transaction enters the episodes. A kill in between leaves bytes without rows, never rows
without bytes; `check` reports such bytes.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from polytask.errors import UserError
from polytask.files import can_write
from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.records import Episode
from polytask.mtopt.store import shards
from polytask.mtopt.store.index import Index
from polytask.mtopt.store.shards import Packed
from polytask.mtopt.store.threads import spread

_NAME = re.compile(r"[A-Za-z0-9_-]{1,48}")


class ShardWriter(AbstractContextManager["ShardWriter"]):
    """Appends episodes; for one thread of one process."""

    def __init__(self, folder: Path, index: Index, name: str, config: StoreConfig) -> None:
        """Prepare to write; the first append creates the first file.

        Args:
            folder: Of the shards.
            index: Where the episodes are entered.
            name: Start of the file names.
            config: How to write.

        Raises:
            UserError: If the name is not valid.
        """
        if not _NAME.fullmatch(name):
            raise UserError(f"'{name}' cannot name a writer; use 1 to 48 letters, digits, '-' and '_'")
        self._folder, self._index, self._name, self._config = folder, index, name, config
        self._file: int | None = None
        self._shard = ""
        self._end = 0
        self._count = 0  # episodes of this shard, for the keys

    def append(self, episode: Episode) -> int:
        """Write one episode and return its id."""
        return self.append_many([episode])[0]

    def append_many(self, episodes: Sequence[Episode]) -> list[int]:
        """Write episodes with one wait for the disk, and return their ids; after an error none of them is entered."""
        if not episodes:
            return []
        for episode in episodes:
            shards.validate(episode)
        if self._file is not None and self._end >= self._config.shard_bytes:
            self.close()
        if self._file is None:
            self._open()
        try:
            content = self._pack(episodes)
            with can_write(self._folder / self._shard):
                packed = self._write(content)
            ids = self._index.add_episodes((self._shard, one) for one in packed)
        except BaseException:
            # It is unknown which bytes reached the disk: leave the file as a killed writer would.
            self._abandon()
            raise
        self._end += sum(one.size for one in packed)
        self._count += len(packed)
        return ids

    def close(self) -> None:
        """Complete the file; a further append starts another one."""
        if self._file is None:
            return
        try:
            with can_write(self._folder / self._shard):
                _write_all(self._file, shards.END)
                if self._config.fsync:
                    os.fsync(self._file)
        finally:
            self._abandon()

    def _open(self) -> None:
        """Create the next file that does not exist yet, and lock it."""
        number = sum(1 for _ in self._folder.glob(f"{self._name}-??????.tar"))
        while True:
            path = self._folder / f"{self._name}-{number:06d}.tar"
            number += 1
            if self._index.end_of(path.name):  # the index knows a file that was lost; its name must not come back
                continue
            try:
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            except FileExistsError:
                continue
            except OSError as error:
                raise UserError(f"cannot write '{path}': {error.strerror}") from error
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # another process runs `check` and locked the file first
                os.close(file)
                continue
            break
        self._file, self._shard, self._end, self._count = file, path.name, 0, 0
        if self._config.fsync:
            _sync_folder(self._folder)

    def _pack(self, episodes: Sequence[Episode]) -> list[tuple[bytes, Packed]]:
        """Compress episodes; the offset of each is zero."""
        key = f"{self._shard.removesuffix('.tar')}-"
        started, level = time.time(), self._config.compression
        jobs = [(f"{key}{self._count + number:06d}", episode) for number, episode in enumerate(episodes)]

        def some(part: Sequence[tuple[str, Episode]]) -> list[tuple[bytes, Packed]]:
            return [shards.pack(*job, 0, started, level) for job in part]

        return spread(some, jobs, self._config.threads)

    def _write(self, packed: Sequence[tuple[bytes, Packed]]) -> list[Packed]:
        """Write the bytes and return their places."""
        assert self._file is not None
        placed, at = [], self._end
        for content, one in packed:
            placed.append(Packed(at, one.size, at + one.outcome_offset, one.outcome_size, one.header, one.truth))
            _write_all(self._file, content)
            at += one.size
        if self._config.fsync:
            os.fsync(self._file)
        return placed

    def _abandon(self) -> None:
        """Close the file as it is."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __exit__(self, *exception: object) -> None:
        """Complete the file."""
        self.close()


def _write_all(file: int, content: bytes) -> None:
    """Write everything, in as many system calls as necessary."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]


def _sync_folder(folder: Path) -> None:
    """Let a new file name in a folder survive a power cut."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
