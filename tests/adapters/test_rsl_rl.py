"""Our worlds as rsl_rl's VecEnv."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from polytask import adapters
from polytask.envs.multi_task import MultiTaskEnv

pytest.importorskip("rsl_rl", exc_type=ImportError)

LENGTH = 5


def test_a_step_has_what_rsl_rl_reads(make: Callable[..., MultiTaskEnv]) -> None:
    env = adapters.RslRlEnv(make(), task_code="onehot")
    assert (env.num_envs, env.num_actions, env.max_episode_length, env.cfg["episode_length"]) == (4, 4, LENGTH, LENGTH)
    obs = env.get_observations()
    assert obs["policy"].shape == (4, 41)
    assert obs["policy"][:, 39:].argmax(-1).tolist() == [0, 0, 1, 1]
    kept = obs["policy"].clone()
    for number in range(LENGTH):
        after, reward, ended, extras = env.step(torch.ones(4, 4))
        assert reward.shape == (4,)
        assert ended.tolist() == extras["time_outs"].tolist() == [number == LENGTH - 1] * 4
    assert torch.equal(obs["policy"], kept)
    assert torch.equal(after["policy"], env.get_observations()["policy"])
    assert extras["log"]["/success"].item() == 0.0


def test_a_true_end_is_no_time_out(make: Callable[..., MultiTaskEnv], monkeypatch: pytest.MonkeyPatch) -> None:
    worlds = make()
    ends = {
        "terminated": torch.tensor([True, False, False, False]),
        "truncated": torch.tensor([False, True, False, False]),
    }
    step = replace(worlds.step(torch.zeros(4, 4)), **ends)
    monkeypatch.setattr(worlds, "step", lambda action: step)
    _, _, ended, extras = adapters.RslRlEnv(worlds).step(torch.zeros(4, 4))
    assert ended.tolist() == [True, True, False, False]
    assert extras["time_outs"].tolist() == [False, True, False, False]


def test_episodes_can_begin_at_any_step(make: Callable[..., MultiTaskEnv]) -> None:
    worlds = make()
    env = adapters.RslRlEnv(worlds)
    env.episode_length_buf = torch.tensor([LENGTH - 1, 0, 2, 0])
    assert env.episode_length_buf.tolist() == [LENGTH - 1, 0, 2, 0]
    assert env.step(torch.zeros(4, 4))[2].tolist() == [True, False, False, False]
    assert worlds.pop_metrics()["episodes"].sum() == 0  # shortened episodes do not count
