"""Multi-task reinforcement learning for robots, on thousands of simulated worlds at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from polytask.factory import make as make


def __getattr__(name: str) -> Any:
    """Import `make` on first use, so that `polytask --help` need not load torch and MuJoCo."""
    if name == "make":
        from polytask.factory import make

        return make
    raise AttributeError(f"module 'polytask' has no attribute '{name}'")
