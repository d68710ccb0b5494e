"""Process many episodes in threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

PART = 16  # largest number of episodes per call: a call costs as much time as a small episode
_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


def spread(work: Callable[[Sequence[_Given]], list[_Made]], items: Sequence[_Given], threads: int) -> list[_Made]:
    """Call `work` on parts of the items, in threads, and return its results in the order of the items.

    Compression and decompression release the interpreter's lock, so several threads are useful.
    """
    if threads < 2 or len(items) < 2:
        return work(items)
    size = max(1, min(PART, len(items) // threads))
    parts = [items[first : first + size] for first in range(0, len(items), size)]
    with ThreadPoolExecutor(threads) as pool:
        return [one for made in pool.map(work, parts) for one in made]
