"""A task that fails acts as others in some of its worlds: what it learns from them, and what it does not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers import grpo, ppo
from helpers.learning import assert_resumes, know_success
from helpers.toy import PointMass, success_rate
from torch import Tensor
from torch.testing import assert_close

from polytask.algos.ppo import PPOConfig
from polytask.errors import UserError
from polytask.nets.independent import IndependentConfig
from polytask.types import Step

BORROWS: dict[str, Any] = {"imitation_coef": 1.0, "imitation_steps": 200, "borrow_share": 0.5}


class Changed(PointMass):
    """A point mass with a bonus in some worlds, or with success in given worlds only."""

    bonus: Tensor | None = None
    success: Tensor | None = None

    def step(self, action: Tensor) -> Step:
        step = super().step(action)
        if self.bonus is not None:
            step.reward = step.reward + self.bonus
        if self.success is not None:
            step.success = self.success
        return step


def test_densities_and_means_are_those_of_the_task_that_acts() -> None:
    env = PointMass((8, 8, 8))
    learner = ppo.make(env, epochs=1, lr=0.0, **BORROWS)
    learner.iterate(env)
    norm = {name: value.clone() for name, value in learner.obs_norm.state_dict().items()}
    know_success(learner, 0.0, 1.0, 0.5)
    learner.iterate(env)
    acting, rollout = learner.actor.borrowing.task, learner.rollout
    assert (acting != env.task).sum() >= 2
    learner.obs_norm.load_state_dict(norm)  # as it was when the policy acted
    for t in range(3):
        mean, log_std = learner.actor.at(rollout.obs[t], acting)
        assert_close(rollout.mean[t], mean)
        assert_close(rollout.log_std[t], log_std.expand_as(mean))
    own, _ = learner.actor.at(rollout.obs[0], env.task)
    assert not torch.allclose(rollout.mean[0], own)


def test_noise_is_correlated_as_in_the_task_that_acts() -> None:
    env = PointMass((8, 8, 8))
    learner = ppo.make(env, epochs=1, lr=0.0, search_correlation=0.9, **BORROWS)
    learner.iterate(env)
    know_success(learner, 0.0, 1.0, 0.5)
    share = torch.tensor([0.9, 0.0, 0.45])
    learner.actor.noise.correlate(share)
    learner.actor.begin()
    learner.loop.collect(env)
    acting, rollout = learner.actor.borrowing.task, learner.rollout
    assert ((env.task == 0) & (acting == 1)).any()
    for t in range(1, 3):
        (before, _), (mean, log_std) = (learner.actor.at(rollout.obs[step], acting) for step in (t - 1, t))
        kept = share[acting].unsqueeze(-1)
        assert_close(rollout.mean[t], mean + kept * (rollout.action[t - 1] - before))
        assert_close(rollout.log_std[t], (log_std + 0.5 * torch.log1p(-kept.square())).expand_as(mean))


@pytest.mark.parametrize("make", [ppo.make, grpo.make])
def test_rewards_of_borrowed_behaviour_do_not_matter(make: Any) -> None:
    results = []
    for bonus in (0.0, 1000.0):
        torch.manual_seed(0)  # of the networks
        env = Changed((8, 8, 8))
        learner = make(env, **BORROWS)
        learner.iterate(env)
        know_success(learner, 0.0, 1.0, 0.5)
        learner.actor.begin()  # only to learn which worlds borrow: the draw is repeated below
        generator = learner.loop.generator
        generator.manual_seed(5)
        learner.actor.begin()
        assert not learner.actor.counted.all()
        env.bonus = bonus * ~learner.actor.counted
        generator.manual_seed(5)
        learner.iterate(env)
        results.append({name: value.clone() for name, value in learner.policy.state_dict().items()})
        assert learner.rollout.reward.max() >= bonus
        assert learner.actor.counted[learner.loop._index % env.spec.num_envs].all()  # the last minibatch
    assert_close(*results, rtol=0.0, atol=0.0)


@pytest.mark.parametrize("advantage", ["reward_to_go", "episodic"])
def test_episodes_are_compared_with_those_of_worlds_that_do_not_borrow(advantage: str) -> None:
    env = PointMass((8, 8, 8))
    learner = grpo.make(env, advantage=advantage, **BORROWS)
    learner.iterate(env)
    know_success(learner, 0.0, 1.0, 0.5)
    metrics = learner.iterate(env)
    counted, used = learner.actor.counted, learner.rows.weight.view(30, 24) > 0
    assert not counted.all() and not used[:, ~counted].any()
    assert_close(metrics["rollout/counted"], used.float().mean())
    scores = learner.rows.advantage.view(30, 24)
    for task in range(3):
        own = (env.task == task) & counted
        rows = scores[0, own] if advantage == "episodic" else scores[:, own][used[:, own]]
        assert_close(rows.mean(), torch.tensor(0.0), atol=1e-4, rtol=0)
        assert_close(rows.std(correction=0), torch.tensor(1.0), atol=1e-3, rtol=0)


def test_places_of_borrowed_behaviour_are_not_visited_by_the_task() -> None:
    env = PointMass((8, 8, 8))
    learner = ppo.make(env, novelty_coef=0.1, **BORROWS)
    know_success(learner, 0.0, 1.0, 0.5)
    learner.iterate(env)
    visits = learner.actor.novelty.state_dict()["cells"].view(3, -1).sum(dim=1)
    own = learner.actor.counted.view(3, 8).sum(dim=1)
    assert own.sum() < 24
    assert visits.tolist() == (16 * own).tolist()


def test_success_of_borrowed_behaviour_is_not_the_tasks_own() -> None:
    env = Changed((4, 4))
    learner = ppo.make(env, **BORROWS)
    env.success = ~learner.actor.borrowing.always
    for _ in range(4):
        learner.iterate(env)
    assert learner.actor.success.rate().tolist() == [0, 0]
    assert (learner.actor.success_memory.count > 0).all()


class StartsAfar(PointMass):
    """Points that start within [-0.5, 0], from where narrow noise never reaches a goal at 1.3."""

    def _sample(self) -> Tensor:
        return 0.25 * super()._sample() - 0.25


def test_a_task_without_reward_is_learned_from_what_another_task_can() -> None:
    rates = {}
    for share in (0.0, 0.5):
        env = StartsAfar((48, 48))
        env.goal = torch.full_like(env.goal, 1.3)
        env.scale = torch.where(env.task == 0, 1.0, 0.0)  # the second task pays only for success
        settings = {"imitation_coef": 5.0, "imitation_steps": 1000, "success_coef": 1.0, "borrow_share": share}
        noise = {"initial_std": 0.2, "min_std": 0.2, "max_std": 0.2, "entropy_coef": 0.0}

        learner = ppo.make(env, net=IndependentConfig(hidden=[32, 32]), epochs=5, lr=3e-3, **noise, **settings)
        for _ in range(60):
            metrics = learner.iterate(env)
        rates[share] = success_rate(env, learner.act).tolist()
    assert rates[0.0][0] > 0.8 and rates[0.0][1] == 0
    assert min(rates[0.5]) > 0.8
    assert 0 <= metrics["rollout/borrowed"] < 0.1  # both succeed, so nothing is left to borrow


@pytest.mark.parametrize("make", [ppo.make, grpo.make])
def test_a_run_that_borrows_is_resumed_bit_for_bit(make: Any) -> None:
    assert_resumes(lambda env: make(env, **BORROWS), before=4)


def test_a_share_without_imitation_is_refused() -> None:
    with pytest.raises(UserError, match=r"if there are other tasks, set algo.imitation_coef too"):
        PPOConfig(borrow_share=0.5).check_together("algo.")


def test_grpo_needs_two_worlds_of_each_task_that_are_not_lent() -> None:
    with pytest.raises(UserError, match=r"at least two besides the algo.borrow_share=0.5 of them, got \(2, 4\)"):
        grpo.make(PointMass((2, 4)), **BORROWS)
