"""A task that fails imitates the actions of its own successes: how much, which actions, and what comes of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.learning import assert_resumes
from helpers.ppo import make
from helpers.toy import PointMass, success_rate
from torch import Tensor
from torch.testing import assert_close

from polytask.algos.ppo import PPO, PPOConfig
from polytask.errors import UserError


def with_one_solvable_task(**settings: Any) -> tuple[PointMass, PPO]:
    """Return worlds whose second task cannot succeed, and a learner."""
    env = PointMass((16, 16))
    ppo = make(env, **settings)
    env.goal = torch.where(env.task.unsqueeze(-1) == 0, env.goal, 9.0)
    return env, ppo


def actor_loss(ppo: PPO) -> Tensor:
    """Return the policy's loss of every row of the iteration, at normalized observations."""
    rows = ppo.rows._replace(
        **{name: ppo.obs_norm.normalize(getattr(ppo.rows, name), ppo.rows.task) for name in ("obs", "past_obs")}
    )
    with torch.no_grad():
        loss, _ = ppo.learners["actor"].backward.loss(ppo.policy, rows)
    return loss


def test_the_loss_adds_the_distance_from_actions_that_led_to_success() -> None:
    env, ppo = with_one_solvable_task(imitation_coef=3.0, imitation_steps=2000)
    for _ in range(10):
        success = ppo.actor.success.rate()
        metrics = ppo.iterate(env)
    count = ppo.actor.success_memory.count
    assert 0 < success[0] < 1 and 0 < count[0] < 2000 and count[1] == 0
    coef = 3.0 * (1 - success) * count / 2000
    assert_close(ppo.actor.imitation_coef, coef)
    assert_close(torch.stack([metrics[f"per_task/goal-{k}/imitation"] for k in range(2)]), coef)
    with_imitation = actor_loss(ppo)
    ppo.actor.imitation_coef.zero_()
    mean = ppo.actor.at(ppo.rows.past_obs, ppo.rows.task)[0]
    error = (mean - ppo.rows.past_action).square().sum(dim=-1)
    assert_close(with_imitation - actor_loss(ppo), coef[ppo.rows.task] * error)


def test_minibatches_pair_every_row_with_a_normalized_step_of_its_task() -> None:
    env, ppo = with_one_solvable_task(imitation_coef=3.0)
    for _ in range(3):
        ppo.iterate(env)
    memory = ppo.actor.success_memory.state_dict()["_obs"][0, : int(ppo.actor.success_memory.count[0])]
    own = ppo.rows.past_obs[ppo.rows.task == 0]
    assert (own[:, None] == memory).all(dim=-1).any(dim=-1).all()
    assert not ppo.rows.past_obs[ppo.rows.task == 1].any()
    index = torch.arange(8)
    columns = dict(zip(ppo.rows._fields, ppo.loop._columns_at(index), strict=True))
    assert_close(columns["past_obs"], ppo.obs_norm.normalize(ppo.rows.past_obs[index], ppo.rows.task[index]))


def test_a_task_without_reward_is_learned_from_its_own_successes() -> None:
    rates = {}
    for coef in (0.0, 5.0):
        torch.manual_seed(0)  # of the networks
        env = PointMass((64,))
        env.scale.zero_()  # nothing pays
        imitation = {"imitation_coef": coef, "imitation_steps": 1000} if coef > 0 else {}
        ppo = make(env, entropy_coef=0.0, lr=3e-3, initial_std=0.6, **imitation)
        for _ in range(20):
            ppo.iterate(env)
        rates[coef] = success_rate(env, ppo.act).item()
    assert rates[0.0] < 0.2 and rates[5.0] > 0.8


def test_a_number_of_steps_without_imitation_is_refused() -> None:
    with pytest.raises(UserError, match=r"algo\.imitation_steps are kept to be imitated; set algo\.imitation_coef"):
        PPOConfig(imitation_steps=100).check_together("algo.")
    PPOConfig(imitation_steps=100, imitation_coef=1.0).check_together("algo.")
    PPOConfig(imitation_steps=16_384).check_together("algo.")


@pytest.mark.parametrize("settings", [{}, {"search_correlation": 0.9}])
def test_a_run_that_imitates_is_resumed_bit_for_bit(settings: dict[str, Any]) -> None:
    assert_resumes(lambda env: make(env, imitation_coef=1.0, imitation_steps=50, **settings), before=3)
