"""Seeds for every purpose of a run, and fixed random-looking numbers for episodes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def derive(seed: int, *words: str | int) -> int:
    """Make the seed of one purpose from the run's seed; no two purposes share a seed."""
    text = "/".join(str(word) for word in (seed, *words))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")


def uniform_hash(episode: int, salt: str = "") -> float:
    """Map an episode to a number in [0, 1) that looks random and never changes.

    A new episode gets a place between the old ones and moves none of them, so an order by this number stays the same as
    the store grows.
    """
    return float(uniform_hashes([episode], salt)[0])


def uniform_hashes(episodes: Sequence[int] | NDArray[np.int64], salt: str = "") -> NDArray[np.float64]:
    """Map many episodes as `uniform_hash` does, fast enough to order a hundred thousand for every question."""
    start = sum(ord(c) * 131**i for i, c in enumerate(salt)) % 2**64
    state = np.asarray(episodes, np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(start)  # modulo 2**64
    # The finalizer of SplitMix64.
    state = (state ^ state >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ state >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return (state ^ state >> np.uint64(31)) / 2.0**64
