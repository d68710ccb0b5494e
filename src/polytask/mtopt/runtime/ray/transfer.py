"""Data between processes: weights and detectors for the workers, episodes for the writer, batches as arrays.

Roles read weights and detectors from folders. A worker on another machine has no such folder, so it receives the bytes
of the files, writes them to a folder of its own while the role reads them, and removes them.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
import torch
from torch import Tensor

from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.detector.folder import in_use, path_of
from polytask.mtopt.learning.weights import WeightFolder
from polytask.mtopt.records import Episode, Label


def bytes_in_flight(config: RunConfig) -> int:
    """Return how many bytes of episodes may be on their way at once, and as many of training batches.

    The last third of Ray's memory is for weights, detectors and what is being freed.
    """
    return config.ray.object_store * 1_000_000 // 3


@dataclass(frozen=True)
class FileRef:
    """A file of the run's folder, by reference."""

    folder: str
    name: str
    written: int  # time, ns
    content: Any  # reference of its bytes


class CurrentFiles:
    """The files that workers need, as the driver sees them: the newest weights and the detector in use."""

    def __init__(self, config: RunConfig) -> None:
        """Read the folders for the first time."""
        self._detectors = config.detectors
        self._weights = WeightFolder(config.weights)
        self.refs: list[FileRef] = []
        self.refresh()

    def lag(self, version: float) -> float:
        """Return the number of versions of the weights between a worker's and the newest."""
        return max(0.0, (self._weights.newest() or 0) - version)

    def refresh(self) -> None:
        """Read the folders again; the bytes of each file go to Ray's object store once."""
        known = {(one.folder, one.name, one.written): one for one in self.refs}
        self.refs = []
        for path in self._paths():
            folder, written = path.parent.name, path.stat().st_mtime_ns
            held = known.get((folder, path.name, written))
            content = held.content if held else ray.put(path.read_bytes())
            self.refs.append(FileRef(folder, path.name, written, content))

    def _paths(self) -> list[Path]:
        weights, detector = self._weights.newest(), in_use(self._detectors)
        paths = [] if weights is None else [self._weights.path(weights)]
        return paths if detector is None else [*paths, path_of(self._detectors, detector)]


class TemporaryCopy:
    """A worker's copy of the run's folder, which exists only while it is read."""

    def __init__(self) -> None:
        """Choose a folder."""
        self.root = Path(tempfile.gettempdir()) / f"polytask-{secrets.token_hex(8)}"
        self._seen: dict[str, tuple[str, int]] = {}

    def update(self, files: Iterable[FileRef], read: Callable[[], Any]) -> None:
        """Write files that are new to this worker, call `read`, which loads them, and remove them."""
        new = [one for one in files if self._seen.get(one.folder) != (one.name, one.written)]
        if not new:
            return
        self.root.mkdir(mode=0o700)
        try:
            for one in new:
                path = self.root / one.folder / one.name
                path.parent.mkdir()
                path.write_bytes(ray.get(one.content))
                os.utime(path, ns=(one.written, one.written))  # readers recognize a file by its time
            read()
        finally:
            shutil.rmtree(self.root)
        self._seen |= {one.folder: (one.name, one.written) for one in new}


@dataclass(frozen=True)
class CollectedSequence:
    """The episodes of one sequence on their way to the store."""

    episodes: list[Episode]
    labels: list[Label]  # `episode` is an index into the list above

    @property
    def size(self) -> int:
        """Return the bytes of its pictures, which are nearly all of it."""
        return sum(one.images.nbytes + one.outcome.nbytes for one in self.episodes)


class MemoryLog:
    """Holds a collector's episodes and labels in place of a store, until they are sent."""

    def __init__(self) -> None:
        """Start empty."""
        self._episodes: list[Episode] = []
        self._labels: list[Label] = []

    def __len__(self) -> int:
        """Count the episodes."""
        return len(self._episodes)

    def count_seed(self, seed: int) -> int:
        """Return 0: only the writer knows the stored episodes."""
        return 0

    def writer(self, name: str) -> MemoryLog:
        """Return itself, which is a writer, too."""
        return self

    def append_many(self, episodes: Sequence[Episode]) -> list[int]:
        """Keep episodes and return their indices."""
        first = len(self._episodes)
        self._episodes += episodes
        return list(range(first, len(self._episodes)))

    def add_labels(self, labels: Sequence[Label]) -> None:
        """Keep labels."""
        self._labels += labels

    def take(self) -> CollectedSequence:
        """Return everything, and start empty again."""
        sequence = CollectedSequence(self._episodes, self._labels)
        self._episodes, self._labels = [], []
        return sequence

    def close(self) -> None:
        """Do nothing: nothing is open."""


def to_arrays(values: Iterable[Any]) -> tuple[Any, ...]:
    """Turn tensors into arrays, which Ray passes on without a copy; keep other values."""
    return tuple(value.cpu().numpy() if isinstance(value, Tensor) else value for value in values)


def to_tensors(values: Iterable[Any], device: str) -> tuple[Any, ...]:
    """Copy arrays into tensors on a device; keep other values."""
    return tuple(torch.tensor(value, device=device) if hasattr(value, "dtype") else value for value in values)
