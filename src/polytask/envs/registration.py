"""Register the suites and the tasks with Gymnasium: "polytask/MT10-v0", "polytask/reach-v0".

`import polytask` calls `register_when_loaded`. Gymnasium takes longer to import than `polytask --help` should, so it is
not imported here: if the program imports it later, the ids are registered at that moment.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from polytask.envs.suites import SUITES

_VECTOR = "polytask.envs.gym:GymVectorEnv"
_SINGLE = "polytask.envs.gym_task:GymTaskEnv"


def register_envs() -> None:
    """Register every suite as a vector environment and every task as a single one, without loading torch or MuJoCo."""
    from gymnasium.envs.registration import register, registry

    for suite in SUITES:
        if (name := f"polytask/{suite.upper()}-v0") not in registry:
            register(name, vector_entry_point=_VECTOR, kwargs={"suite": suite})
    for task in sorted({task for tasks in SUITES.values() for task in tasks}):
        if (name := f"polytask/{task}-v0") not in registry:
            register(name, entry_point=_SINGLE, vector_entry_point=_VECTOR, kwargs={"tasks": [task]})


def register_when_loaded() -> None:
    """Register the ids now if Gymnasium is loaded, else as soon as it is."""
    if "gymnasium" in sys.modules:
        register_envs()
    elif not any(isinstance(finder, _RegisterWithGymnasium) for finder in sys.meta_path):
        sys.meta_path.insert(0, _RegisterWithGymnasium())


class _RegisterWithGymnasium(MetaPathFinder):
    """Finds `gymnasium` as the other finders do, and calls `register_envs` after it was imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of Gymnasium with a loader that registers the ids; None for every other module."""
        if fullname != "gymnasium":
            return None
        others = (finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec"))
        spec = next((found for finder in others if (found := finder.find_spec(fullname, path, target))), None)
        if spec is None or spec.loader is None:
            return spec
        load: Any = spec.loader.exec_module

        def load_and_register(module: ModuleType) -> None:
            load(module)
            sys.meta_path.remove(self)
            register_envs()

        spec.loader.exec_module = load_and_register  # type: ignore[method-assign]
        return spec
