"""The Gymnasium wrapper: registered names, spaces, tensors as input and output, same-step resets."""

from __future__ import annotations

import gymnasium
import torch
from gymnasium.vector import AutoresetMode

from polytask.envs.registration import register_envs

register_envs()


def test_make_vec_builds_a_suite_by_name() -> None:
    env = gymnasium.make_vec("polytask/MT10-v0", num_envs=20, threads=1)
    obs, info = env.reset(seed=1)
    assert isinstance(obs, torch.Tensor)
    assert obs.shape == env.observation_space.shape == (20, 39)
    assert env.action_space.shape == (20, 4)
    assert info["task"].tolist() == sorted(list(range(10)) * 2)
    again, _ = env.reset(seed=1)
    assert torch.equal(obs, again)
    env.close()


def test_final_observation_is_in_the_info_of_the_step_that_ended_the_episode() -> None:
    env = gymnasium.make_vec("polytask/MT10-v0", num_envs=10, threads=1, episode_length=2, stagger=False)
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    env.reset(seed=0)
    obs, _, terminated, truncated, info = env.step(env.action_space.sample())
    assert not info["_final_obs"].any()
    after, reward, terminated, truncated, info = env.step(env.action_space.sample())
    assert truncated.all()
    assert not terminated.any()
    assert info["_final_obs"].all()
    assert torch.equal(info["final_obs"][:, 18:36], obs[:, :18])
    assert not torch.equal(after, info["final_obs"])
    assert reward.shape == (10,)
    env.close()
