"""Our worlds as an environment of skrl."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from polytask import adapters
from polytask.envs.multi_task import MultiTaskEnv

pytest.importorskip("skrl", exc_type=ImportError)


def test_columns_and_spaces_are_those_of_skrl(make: Callable[..., MultiTaskEnv]) -> None:
    env = adapters.SkrlEnv(make(), task_code="onehot")
    assert (env.num_envs, env.num_agents, env.state_space, env.state()) == (4, 1, None, None)
    assert (env.observation_space.shape, env.action_space.shape) == ((41,), (4,))
    first, _ = env.reset()
    assert first.shape == (4, 41)
    for _ in range(5):
        obs, reward, terminated, truncated, info = env.step(torch.ones(4, 4))
    assert reward.shape == terminated.shape == truncated.shape == (4, 1)
    assert truncated.all()
    assert not terminated.any()
    assert not torch.equal(info["final_obs"], obs)
    assert info["final_obs"].shape == (4, 41)


def test_only_the_first_reset_starts_episodes(make: Callable[..., MultiTaskEnv]) -> None:
    env = adapters.SkrlEnv(make())
    env.reset()
    obs, *_ = env.step(torch.ones(4, 4))
    again, _ = env.reset()
    assert torch.equal(again, obs)
    assert env.render(1, 64, 48).shape == (48, 64, 3)
