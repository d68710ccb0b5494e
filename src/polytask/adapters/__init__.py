"""polytask's worlds as the environments of other libraries. Each class wraps what `polytask.make` returns.

    from polytask.adapters import RslRlEnv, Sb3Env, SkrlEnv, TorchRLEnv

A library is imported when its class is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from polytask.errors import UserError

if TYPE_CHECKING:
    from polytask.adapters.rsl_rl import RslRlEnv as RslRlEnv
    from polytask.adapters.sb3 import Sb3Env as Sb3Env
    from polytask.adapters.skrl import SkrlEnv as SkrlEnv
    from polytask.adapters.torchrl import TorchRLEnv as TorchRLEnv

# The module of each class, and the extra that installs its library.
_ADAPTERS = {
    "RslRlEnv": ("rsl_rl", "rsl-rl"),
    "Sb3Env": ("sb3", "sb3"),
    "SkrlEnv": ("skrl", "skrl"),
    "TorchRLEnv": ("torchrl", "torchrl"),
}


def __getattr__(name: str) -> Any:
    """Import an adapter on first use, since each needs a library of its own."""
    if name not in _ADAPTERS:
        raise AttributeError(f"module 'polytask.adapters' has no attribute '{name}'")
    module, extra = _ADAPTERS[name]
    try:
        return getattr(import_module(f"polytask.adapters.{module}"), name)
    except ModuleNotFoundError as error:
        raise UserError(f"{name} needs an extra: pip install 'polytask[{extra}]' (no module '{error.name}')") from error


def __dir__() -> list[str]:
    """List the adapters too, although they are imported on first use."""
    return sorted({*globals(), *_ADAPTERS})
