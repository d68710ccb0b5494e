"""The part of a store that a collector uses: the store itself, or an object that forwards episodes to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from polytask.mtopt.records import Episode, Label


class EpisodeWriter(Protocol):
    """Appends episodes."""

    def append_many(self, episodes: Sequence[Episode]) -> list[int]:
        """Append episodes, all or none of them, and return their ids."""
        ...

    def close(self) -> None:
        """Complete the last file."""
        ...


class EpisodeLog(Protocol):
    """Counts and adds episodes, and adds labels."""

    def __len__(self) -> int:
        """Count the episodes."""
        ...

    def count_seed(self, seed: int) -> int:
        """Count the episodes of a seed."""
        ...

    def writer(self, name: str) -> EpisodeWriter:
        """Return a writer."""
        ...

    def add_labels(self, labels: Sequence[Label]) -> None:
        """Append labels."""
        ...

    def close(self) -> None:
        """Close the log."""
        ...
