"""Share work on many episodes out among threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

PART = 16  # episodes, at most, that a thread takes at a time: handing over takes as long as a small episode
_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


def spread(work: Callable[[Sequence[_Given]], list[_Made]], items: Sequence[_Given], threads: int) -> list[_Made]:
    """Do work on some of the items at a time and return what it made of all of them, in their order.

    Compressing and decompressing leave the interpreter to other threads, so several are of use.
    """
    if threads < 2 or len(items) < 2:
        return work(items)
    size = max(1, min(PART, len(items) // threads))
    parts = [items[first : first + size] for first in range(0, len(items), size)]
    with ThreadPoolExecutor(threads) as pool:
        return [one for made in pool.map(work, parts) for one in made]
