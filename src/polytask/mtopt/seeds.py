"""Seeds: one for every purpose of a run, made from the run's own."""

from __future__ import annotations

import hashlib


def derive(seed: int, *words: str | int) -> int:
    """Make the seed of one purpose from the run's seed; no two purposes share theirs."""
    text = "/".join(str(word) for word in (seed, *words))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")
