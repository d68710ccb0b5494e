"""What tasks that fail are paid besides their reward: for new places of hand and objects, and for success."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from helpers.learning import assert_resumes
from helpers.ppo import make
from helpers.toy import PointMass
from torch import Tensor
from torch.testing import assert_close

from polytask.algos.ppo import PPO, PPOConfig
from polytask.algos.shared.novelty import Novelty
from polytask.errors import UserError


def with_one_solvable_task(**settings: float) -> tuple[PointMass, PPO]:
    """Return worlds whose second task cannot succeed, and a learner."""
    env = PointMass((16, 16))
    ppo = make(env, **settings)
    env.goal = torch.where(env.task.unsqueeze(-1) == 0, env.goal, 9.0)
    return env, ppo


def rewards_before_and_after(env: PointMass, ppo: PPO) -> tuple[Tensor, Tensor]:
    """Collect a rollout and pay its bonuses."""
    ppo.loop.collect(env)
    before = ppo.rollout.reward.clone()
    ppo.actor.reward_search()
    return before, ppo.rollout.reward


def test_only_tasks_that_fail_earn_novelty() -> None:
    env, ppo = with_one_solvable_task(novelty_coef=0.5)
    for _ in range(10):
        success = ppo.actor.success.rate()
        expected = Novelty((0,), env.task, 2)
        expected.load_state_dict(ppo.actor.novelty.state_dict())
        before, after = rewards_before_and_after(env, ppo)
        ppo.actor.settle()
    bonus = expected.bonus(ppo.rollout.obs, ppo.rollout.done)
    assert success[0] > 0 and success[1] == 0
    assert_close(after, before + 0.5 * (1 - success)[env.task] * bonus)
    assert ppo.actor.mean_bonus > 0


def test_a_success_pays_less_the_more_often_a_task_succeeds() -> None:
    env, ppo = with_one_solvable_task(success_coef=8.0)
    for _ in range(10):
        success = ppo.actor.success.rate()
        before, after = rewards_before_and_after(env, ppo)
        ppo.actor.settle()
    succeeded = ppo.rollout.success
    assert 0 < success[0] < 1 and succeeded.any() and not succeeded.all()
    assert_close(after, before + 8.0 * (1 - success)[env.task] * succeeded)
    assert not succeeded[:, env.task == 1].any()
    assert_close(ppo.actor.mean_bonus, (after - before).mean())


def test_both_bonuses_add_up() -> None:
    env, ppo = with_one_solvable_task(novelty_coef=0.5, success_coef=8.0)
    before, after = rewards_before_and_after(env, ppo)  # nothing has succeeded yet, so both are paid in full
    novelty = Novelty((0,), env.task, 2).bonus(ppo.rollout.obs, ppo.rollout.done)
    assert ppo.rollout.success.any()
    assert_close(after, before + 0.5 * novelty + 8.0 * ppo.rollout.success)


def test_novelty_is_paid_and_counted_from_its_start_on() -> None:
    env, ppo = with_one_solvable_task(novelty_coef=0.5, novelty_start=600)
    counted = Novelty((0,), env.task, 2)  # of the third and fourth iteration alone
    assert ppo.frames_per_iteration == 512
    for is_paid in (False, False, True, True):
        before, after = rewards_before_and_after(env, ppo)
        bonus = counted.bonus(ppo.rollout.obs, ppo.rollout.done) if is_paid else 0.0
        assert_close(after, before + 0.5 * bonus)
        ppo.loop.finish()


def test_a_start_of_novelty_needs_novelty() -> None:
    with pytest.raises(UserError, match=r"algo\.novelty_start delays algo\.novelty_coef"):
        PPOConfig(novelty_start=10).check_together("algo.")
    PPOConfig(novelty_start=10, novelty_coef=0.5).check_together("algo.")


@pytest.mark.parametrize("name", ["novelty_coef", "success_coef"])
def test_an_iteration_adds_the_bonus_and_shows_it(name: str) -> None:
    env = PointMass((16, 16))
    with_bonus = make(env, **{name: 0.5}).iterate(env)
    assert with_bonus["rollout/bonus"] > 0
    env = PointMass((16, 16))
    without = make(env).iterate(env)
    assert_close(with_bonus["rollout/reward"] - without["rollout/reward"], with_bonus["rollout/bonus"])
    assert "rollout/bonus" not in without


@pytest.mark.parametrize("name", ["novelty_coef", "success_coef"])
def test_a_run_with_bonus_is_resumed_bit_for_bit(name: str) -> None:
    assert_resumes(lambda env: make(env, total_frames=600, **{name: 0.5}), before=2)


def test_tasks_without_places_have_no_novelty_but_success() -> None:
    env = PointMass((2, 2))
    env.spec = replace(env.spec, places=())
    with pytest.raises(UserError, match=r"algo\.novelty_coef does not apply"):
        make(env, novelty_coef=0.1)
    make(env, success_coef=0.1)
