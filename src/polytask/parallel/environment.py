"""What torchrun tells a process in environment variables; reading it needs no torch."""

from __future__ import annotations

import os

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def is_parallel() -> bool:
    """Return whether torchrun started this process together with others."""
    return all(name in os.environ for name in VARIABLES) and number("WORLD_SIZE") > 1


def number(name: str) -> int:
    """Return the number in a variable of torchrun."""
    return int(os.environ[name])
