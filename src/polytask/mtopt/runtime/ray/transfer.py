"""What travels: weights and detectors to the workers, episodes to the writer, batches as arrays.

Roles read weights and detectors from folders. A worker elsewhere has no such folder, so it gets the files' bytes, lays
them out in a folder of its own for as long as the role reads them, and removes them.
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
from polytask.mtopt.store import EpisodeRow


@dataclass(frozen=True)
class Parcel:
    """A file of the run's folder, by reference."""

    folder: str
    name: str
    written: int  # when, ns
    content: Any  # reference of its bytes


class Newest:
    """The driver's view of the folders of weights and detectors: the newest weights, the detector in use."""

    def __init__(self, config: RunConfig) -> None:
        """Look for the first time."""
        self._detectors = config.detectors
        self._weights = WeightFolder(config.weights)
        self.parcels: list[Parcel] = []
        self.look()

    def lag(self, version: float) -> float:
        """Count the versions of the weights between a worker's and the newest."""
        return max(0.0, (self._weights.newest() or 0) - version)

    def look(self) -> None:
        """Take in what has been written since; each file is put up for the workers once."""
        known = {(one.folder, one.name, one.written): one for one in self.parcels}
        self.parcels = []
        for path in self._files():
            folder, written = path.parent.name, path.stat().st_mtime_ns
            held = known.get((folder, path.name, written))
            content = held.content if held else ray.put(path.read_bytes())
            self.parcels.append(Parcel(folder, path.name, written, content))

    def _files(self) -> list[Path]:
        weights = max(
            self._weights.folder.glob("*.pt"), key=lambda path: (path.stat().st_mtime_ns, path.name), default=None
        )
        version = in_use(self._detectors)
        detector = None if version is None else path_of(self._detectors, version)
        return [path for path in (weights, detector) if path is not None]


class Mirror:
    """A worker's stand-in for the run's folder, which is there only while it is read."""

    def __init__(self) -> None:
        """Choose a place."""
        self.root = Path(tempfile.gettempdir()) / f"polytask-{secrets.token_hex(8)}"
        self._seen: dict[str, tuple[str, int]] = {}

    def bring(self, parcels: Iterable[Parcel], read: Callable[[], Any]) -> None:
        """Lay out files that are new here, let `read` load them, and remove them."""
        new = [one for one in parcels if self._seen.get(one.folder) != (one.name, one.written)]
        if not new:
            return
        self.root.mkdir(mode=0o700)
        try:
            for one in new:
                path = self.root / one.folder / one.name
                path.parent.mkdir()
                path.write_bytes(ray.get(one.content))
                os.utime(path, ns=(one.written, one.written))  # a file is known by its time
            read()
        finally:
            shutil.rmtree(self.root)
        self._seen |= {one.folder: (one.name, one.written) for one in new}


@dataclass(frozen=True)
class Harvest:
    """What one sequence gave, on its way to the store."""

    episodes: list[Episode]
    labels: list[Label]  # whose `episode` is a place in the list above


class Outbox:
    """Takes a collector's episodes and labels in place of a store, until they are sent."""

    def __init__(self) -> None:
        """Start empty."""
        self._episodes: list[Episode] = []
        self._labels: list[Label] = []

    def __len__(self) -> int:
        """Count the episodes."""
        return len(self._episodes)

    def rows(self, after: int = 0) -> list[EpisodeRow]:
        """Know of no episode that was stored earlier; the writer does."""
        return []

    def writer(self, name: str) -> Outbox:
        """Be the writer too."""
        return self

    def append_many(self, episodes: Sequence[Episode]) -> list[int]:
        """Keep episodes and return their places."""
        first = len(self._episodes)
        self._episodes += episodes
        return list(range(first, len(self._episodes)))

    def add_labels(self, labels: Sequence[Label]) -> None:
        """Keep labels."""
        self._labels += labels

    def take(self) -> Harvest:
        """Hand everything out."""
        harvest = Harvest(self._episodes, self._labels)
        self._episodes, self._labels = [], []
        return harvest

    def close(self) -> None:
        """Do nothing: nothing is open."""


def to_arrays(values: Iterable[Any]) -> tuple[Any, ...]:
    """Turn tensors into arrays, which Ray passes on without copying; other values stay."""
    return tuple(value.cpu().numpy() if isinstance(value, Tensor) else value for value in values)


def to_tensors(values: Iterable[Any], device: str) -> tuple[Any, ...]:
    """Turn arrays back into tensors of their own on a device; other values stay."""
    return tuple(torch.tensor(value, device=device) if hasattr(value, "dtype") else value for value in values)
