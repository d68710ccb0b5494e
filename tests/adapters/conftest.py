"""Worlds for the adapters. Their libraries warn at import; only our own warnings are errors here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import polytask
from polytask.envs.multi_task import MultiTaskEnv

LENGTH = 5


@pytest.fixture
def make() -> Iterator[Callable[..., MultiTaskEnv]]:
    """Return a function that builds two worlds of two tasks each."""
    built: list[MultiTaskEnv] = []

    def build(**options: Any) -> MultiTaskEnv:
        standard = {"tasks": ["reach", "drawer-open"], "num_envs": 4, "stagger": False, "threads": 1}
        built.append(polytask.make(**{**standard, "episode_length": LENGTH, **options}))
        return built[-1]

    yield build
    for env in built:
        env.close()
