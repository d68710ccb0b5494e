"""Experience of off-policy learners: rows are normalized, and statistics come from new steps only."""

from __future__ import annotations

from typing import Any

import torch
from helpers.toy import PointMass
from torch.testing import assert_close

from polytask.algos import AlgoContext
from polytask.algos.shared.experience import Experience, ExperienceConfig


def gathered(env: PointMass, steps: int, **changes: Any) -> Experience:
    """Return an experience that holds some random steps of the environment."""
    cfg = ExperienceConfig(**{"capacity": 10_000, "n_step": 2, "gamma": 0.9, **changes})
    experience = Experience(cfg, AlgoContext(env.spec, env.device), return_bound=10.0)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        stage = experience.begin(env)
        stage.action.uniform_(-1, 1, generator=generator)
        experience.finish(env.step(stage.action))
    return experience


def test_step_is_kept_with_the_observation_acted_on_and_the_one_before_the_reset() -> None:
    env, twin = PointMass((3, 2)), PointMass((3, 2))
    experience = gathered(env, 40)
    generator = torch.Generator().manual_seed(0)
    ring, ends = experience.replay.ring, 0
    for t in range(40):
        obs = twin.obs.clone()
        step = twin.step(torch.empty(5, 2).uniform_(-1, 1, generator=generator))
        assert_close((ring.obs[t], ring.next_obs[t], ring.reward[t]), (obs, step.next_obs, step.reward))
        assert_close(ring.terminated[t], step.terminated)
        assert_close(ring.done[t], step.terminated | step.truncated)
        ends += int(ring.done[t].sum())
    assert ends > 5
    assert experience.steps == experience.replay.count == 40


def test_rows_are_normalised_by_the_statistics_of_their_task() -> None:
    env = PointMass((3, 2))
    experience = gathered(env, 30)
    draw = torch.Generator().manual_seed(3)
    raw = experience.replay.sample(8, draw)
    batch = experience.sample(8, draw.manual_seed(3))
    norm, scale = experience.obs_norm, experience.reward_norm.scale()
    for k in range(2):
        rows = experience.replay.ring.obs[:30, env.task == k].flatten(0, 1)
        mean, std = rows.mean(0), (rows.var(0, correction=0) + norm.eps).sqrt()
        assert_close(batch.obs[k], (raw.obs[k] - mean) / std, rtol=1e-4, atol=1e-4)
        assert_close(batch.next_obs[k], ((raw.next_obs[k] - mean) / std).clamp(-10, 10), rtol=1e-4, atol=1e-4)
        assert_close(batch.reward[k], raw.reward[k] / scale[k])
    assert_close(batch.discount, raw.discount)
    assert scale[1] / scale[0] > 3  # the second task's rewards are ten times as large


def test_return_statistics_end_with_the_episode_also_at_the_time_limit() -> None:
    env = PointMass((3, 2))
    experience = gathered(env, 40)
    reward, done = experience.replay.ring.reward[:40], experience.replay.ring.done[:40]
    assert (done & ~experience.replay.ring.terminated[:40]).any()
    running, largest = torch.zeros(5), torch.zeros(5)
    for t in range(40):
        running = reward[t] + 0.9 * running
        largest = torch.maximum(largest, running.abs())
        running = torch.where(done[t], 0.0, running)
    assert_close(experience.reward_norm.returns, running)
    assert_close(experience.reward_norm.largest, torch.stack([largest[:3].max(), largest[3:].max()]))


def test_settings_of_the_statistics_are_passed_on() -> None:
    env = PointMass((3, 2))
    cfg = ExperienceConfig(capacity=100, n_step=2, gamma=0.5, obs_clip=3.0, min_obs_std=0.5)
    experience = Experience(cfg, AlgoContext(env.spec, env.device), return_bound=4.0)
    experience.obs_norm.update(torch.zeros(5, 3), env.task)
    seen = experience.obs_norm.normalize(torch.tensor([[0.5, 9.0, -9.0]]), env.task[:1])
    assert_close(seen, torch.tensor([[1.0, 3.0, -3.0]]))
    experience.reward_norm.update(torch.tensor([8.0, 0, 0, 0, 0]), torch.zeros(5, dtype=torch.bool))
    experience.reward_norm.spread.variance.zero_()
    assert experience.reward_norm.scale().tolist() == [2.0, 1.0]  # a return of 8 within a bound of 4


def test_drawing_leaves_the_statistics_alone() -> None:
    experience = gathered(PointMass((3, 2)), 10)
    before = [buffer.clone() for buffer in experience.obs_norm.buffers()]
    experience.sample(64, torch.Generator())
    assert_close(list(experience.obs_norm.buffers()), before, rtol=0, atol=0)
    assert experience.obs_norm.count.tolist() == [30, 20]


def test_rewards_may_be_served_as_they_are() -> None:
    experience = gathered(PointMass((3, 2)), 10, normalize_reward=False)
    draw = torch.Generator()
    raw = experience.replay.sample(8, draw.manual_seed(3))
    assert_close(experience.sample(8, draw.manual_seed(3)).reward, raw.reward)


def test_replay_is_saved_only_if_asked_for_and_starts_empty_otherwise() -> None:
    env = PointMass((3, 2))
    assert gathered(env, 10).state_dict()["replay"]["count"] == 10
    experience = gathered(env, 10, save_replay=False)
    state = experience.state_dict()
    assert "replay" not in state
    other = gathered(env, 0, save_replay=False)
    other.load_state_dict(state)
    assert other.steps == 0
    assert_close(other.obs_norm.mean, experience.obs_norm.mean)
    assert_close(other.reward_norm.scale(), experience.reward_norm.scale())


def test_reported_reward_is_the_mean_since_the_last_report() -> None:
    experience = gathered(PointMass((3, 2)), 10)
    assert_close(experience.pop_reward(10), experience.replay.ring.reward[:10].mean())
    assert experience.pop_reward(10) == 0
