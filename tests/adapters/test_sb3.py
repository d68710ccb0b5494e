"""Our worlds as Stable-Baselines3's VecEnv."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from polytask import adapters
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.scripted import ScriptedPolicy

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
vec_env = pytest.importorskip("stable_baselines3.common.vec_env", exc_type=ImportError)

LENGTH = 5


def test_an_episode_ends_as_stable_baselines_expects(make: Callable[..., MultiTaskEnv]) -> None:
    env = vec_env.VecMonitor(adapters.Sb3Env(make(), task_code="onehot"))
    obs = env.reset()
    assert obs.shape == (4, 41)
    assert env.observation_space.contains(obs[0])
    for _ in range(LENGTH):
        last, (obs, reward, ended, infos) = obs, env.step(np.ones((4, 4), np.float32))
    assert reward.dtype == np.float32
    assert ended.all()
    assert all(info["TimeLimit.truncated"] for info in infos)
    assert [info["episode"]["l"] for info in infos] == [LENGTH] * 4
    assert np.array_equal(infos[0]["terminal_observation"][18:36], last[0, :18])
    assert np.array_equal(obs[0, 18:36], obs[0, :18])  # the first observation of the next episode
    assert infos[3]["is_success"] is False
    _, _, ended, infos = env.step(np.ones((4, 4), np.float32))
    assert not ended.any()
    assert infos[0] == {"TimeLimit.truncated": False}


def test_success_at_any_step_counts(make: Callable[..., MultiTaskEnv]) -> None:
    worlds = make(tasks=["reach"], num_envs=3, episode_length=100)
    env, expert = adapters.Sb3Env(worlds), ScriptedPolicy(worlds)
    obs, ended = torch.from_numpy(env.reset()), np.zeros(3, bool)
    while not ended.all():
        away = torch.tensor([0.0, 0.0, 1.0, 0.0]) if worlds.episode_step[0] > 80 else None
        action = expert(obs, worlds.task) if away is None else away.expand(3, 4)
        found, _, ended, infos = env.step(action.numpy())
        obs = torch.from_numpy(found)
    assert [info["is_success"] for info in infos] == [True] * 3


def test_seeds_are_used_by_the_next_reset(make: Callable[..., MultiTaskEnv]) -> None:
    env = adapters.Sb3Env(make())
    env.seed(3)
    first = env.reset()
    assert not np.array_equal(env.reset(), first)
    env.seed(3)
    assert np.array_equal(env.reset(), first)


def test_worlds_share_attributes_and_are_drawn(make: Callable[..., MultiTaskEnv]) -> None:
    env = adapters.Sb3Env(make())
    assert env.get_attr("num_envs", [0, 2]) == [4, 4]
    assert env.env_is_wrapped(vec_env.VecMonitor) == [False] * 4
    assert env.render("rgb_array").shape == (720, 960, 3)
