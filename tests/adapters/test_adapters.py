"""What all adapters have in common: missing libraries, environments that reuse their buffers, wrong options."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import pytest

from polytask import adapters
from polytask.envs.multi_task import MultiTaskEnv
from polytask.errors import UserError

LIBRARIES = {"RslRlEnv": "rsl_rl", "Sb3Env": "stable_baselines3", "SkrlEnv": "skrl", "TorchRLEnv": "torchrl"}

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_missing_library_is_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str) -> None:
        raise ModuleNotFoundError(f"No module named '{LIBRARIES[name]}'", name=LIBRARIES[name])

    monkeypatch.setattr("polytask.adapters.import_module", missing)
    with pytest.raises(UserError, match=rf"^{name} needs an extra: pip install 'polytask\[.*\]' \(no module '.*'\)$"):
        getattr(adapters, name)


def test_all_adapters_are_listed_and_nothing_else_is_found() -> None:
    assert set(LIBRARIES) <= set(dir(adapters))
    with pytest.raises(AttributeError, match="has no attribute 'RayEnv'"):
        _ = adapters.RayEnv


@pytest.mark.parametrize("name", LIBRARIES)
def test_an_adapter_refuses_what_it_cannot_serve(name: str, make: Callable[..., MultiTaskEnv]) -> None:
    if find_spec(LIBRARIES[name]) is None:
        pytest.skip(f"{LIBRARIES[name]} is not installed")
    adapter = getattr(adapters, name)
    with pytest.raises(UserError, match=f"{name} keeps what a step returns; build the environment with copy=True"):
        adapter(make(copy=False))
    with pytest.raises(UserError, match="unknown task_code 'two'"):
        adapter(make(), task_code="two")
