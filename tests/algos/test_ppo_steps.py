"""How PPO chooses its steps and its noise: schedules, the adaptive rate, entropy, bounds by success."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from helpers.learning import (
    METHODS,
    assert_resumes,
)
from helpers.ppo import make, rows_of
from helpers.toy import PointMass
from torch.distributions import Normal, kl_divergence
from torch.testing import assert_close

from polytask.algos.ppo import PPO, PPOConfig
from polytask.errors import UserError
from polytask.grads import GRADS


def test_linear_schedule_falls_to_zero_with_the_last_frame() -> None:
    env = PointMass((2, 2))
    ppo = make(env, schedule="linear", total_frames=4 * 16 * 4)
    rates = []
    for _ in range(5):
        ppo.iterate(env)
        rates.append(ppo.learners["actor"].optimizer.param_groups[0]["lr"].item())
    assert rates == pytest.approx([1e-3, 0.75e-3, 0.5e-3, 0.25e-3, 0.0])


@pytest.mark.parametrize("lr", [5e-5, 0.1])
def test_adaptive_rate_brings_the_change_of_the_policy_to_the_target(lr: float) -> None:
    changes = {}
    for schedule in ("constant", "adaptive"):
        env = PointMass((16, 16))
        ppo = make(env, schedule=schedule, lr=lr, max_lr=0.1, target_kl=0.01, epochs=4)
        metrics = [ppo.iterate(env) for _ in range(24)]
        # Over many iterations: a mean of eight differs by a third between machines, because rounding decides the path.
        changes[schedule] = sum(each["policy/mean_kl"].item() for each in metrics[8:]) / 16
    assert 0.005 < changes["adaptive"] < 0.02
    assert not 0.001 < changes["constant"] < 0.05
    assert metrics[-1]["policy/lr"] == ppo.learners["actor"].optimizer.param_groups[0]["lr"]
    assert ppo.learners["critic"].optimizer.param_groups[0]["lr"].item() == pytest.approx(lr)  # not its step


def test_a_first_rate_is_that_of_the_policy_alone() -> None:
    env = PointMass((4, 4))
    ppo = make(env, schedule="adaptive", lr=1e-3, first_lr=1e-5, min_lr=1e-5, epochs=1)
    metrics = ppo.iterate(env)
    assert metrics["policy/lr"].item() == pytest.approx(1.5e-5)  # nothing moved, so the next step may be longer
    assert ppo.learners["critic"].optimizer.param_groups[0]["lr"].item() == pytest.approx(1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_adaptive_rate_is_resumed_bit_for_bit(method: str) -> None:
    assert_resumes(lambda env: make(env, grads=GRADS[method][0](), schedule="adaptive", lr=5e-3))


def test_change_of_the_policy_is_measured_exactly() -> None:
    env = PointMass((4, 4))
    ppo = make(env, epochs=1, minibatch=10**6)
    ppo.iterate(env)
    metrics = ppo.iterate(env)
    assert metrics["policy/mean_kl"].abs() < 1e-6 < metrics["policy/kl"]  # the only minibatch precedes the only step
    rows = ppo.loop.last()
    mean, log_std = ppo.policy(rows.obs, rows.task)
    exact = kl_divergence(Normal(rows.mean, rows.log_std.exp()), Normal(mean, log_std.exp())).sum(-1).mean()
    assert_close(ppo.actor.metrics(rows)["policy/kl"], exact.detach())


def test_weight_of_the_entropy_falls_linearly_to_its_final_value() -> None:
    env = PointMass((2, 2))
    ppo = make(env, entropy_coef=0.04, final_entropy_coef=0.0, total_frames=4 * 16 * 4)
    weights, losses = [], []
    rows = rows_of(log_prob=[-math.log(2 * math.pi)] * 4)
    for _ in range(6):
        ppo.iterate(env)
        weights.append(ppo.actor.entropy_coef[1].item())
        loss, _ = ppo.learners["actor"].backward.loss(lambda obs, task: (rows.mean, rows.log_std), rows)
        losses.append(loss.mean().item())
    expected = torch.tensor([0.04, 0.03, 0.02, 0.01, 0.0, 0.0])
    assert_close(torch.tensor(weights), expected)
    assert_close(torch.tensor(losses), -expected * math.log(2 * math.pi * math.e))


def after_one_task_succeeded(**settings: float) -> tuple[PPO, torch.Tensor]:
    """Train on two tasks of which the second cannot succeed; return the success that the last iteration began with."""
    env = PointMass((16, 16))
    ppo = make(env, **settings)
    env.goal = torch.where(env.task.unsqueeze(-1) == 0, env.goal, 9.0)
    for _ in range(10):
        success = ppo.actor.success.rate()
        ppo.iterate(env)
    assert success[0] > 0.1 and success[1] == 0
    return ppo, success


def test_a_task_that_fails_is_paid_more_for_its_entropy() -> None:
    ppo, success = after_one_task_succeeded(entropy_coef=0.01, search_entropy_coef=0.05)
    assert_close(ppo.actor.entropy_coef, torch.stack([0.05 - 0.04 * success[0], torch.tensor(0.05)]))
    rows = rows_of(log_prob=[-math.log(2 * math.pi)] * 4, task=[0, 1, 0, 1])
    loss, _ = ppo.learners["actor"].backward.loss(lambda obs, task: (rows.mean, rows.log_std), rows)
    entropy = math.log(2 * math.pi * math.e)
    assert_close(loss, -entropy * ppo.actor.entropy_coef[[0, 1, 0, 1]] - rows.advantage)


def test_the_more_a_task_succeeds_the_less_its_loss_weighs() -> None:
    ppo, success = after_one_task_succeeded(solved_weight=0.2)
    assert_close(ppo.actor.loss_weight, torch.stack([1 - 0.8 * success[0], torch.tensor(1.0)]))
    rows = rows_of(log_prob=[-math.log(2 * math.pi)] * 4, task=[0, 1, 0, 1])
    weighted, _ = ppo.learners["actor"].backward.loss(lambda obs, task: (rows.mean, rows.log_std), rows)
    ppo.actor.loss_weight.fill_(1.0)
    plain, _ = ppo.learners["actor"].backward.loss(lambda obs, task: (rows.mean, rows.log_std), rows)
    share = 1 - 0.8 * success[0]
    assert_close(weighted, plain * torch.stack([share, torch.tensor(1.0)] * 2))


def test_noise_of_a_task_is_bounded_by_its_success() -> None:
    env = PointMass((16, 16))
    ppo = make(env, final_std=0.1, max_std=1.5, entropy_coef=1.0)  # so much entropy that the noise is at its bound
    env.goal = torch.where(env.task.unsqueeze(-1) == 0, env.goal, 9.0)  # the second task cannot succeed
    for _ in range(25):
        metrics = ppo.iterate(env)
    success = ppo.actor.success.rate()
    assert success[0] > 0.3 and success[1] == 0
    std = ppo.policy.log_std.detach().exp()
    bound = 1.5 * (0.1 / 1.5) ** success
    assert_close(std[:1], bound[:1, None].expand(1, 2), rtol=1e-3, atol=0)
    assert (std[1] > 1.0).all()
    assert_close(metrics["per_task/goal-0/std"], std[0].mean(), rtol=0.05, atol=0)  # before this iteration's bound


def test_noise_of_tasks_that_fail_swings_each_task_at_another_time() -> None:
    env = PointMass((16, 16))
    ppo = make(env, search_std=0.1, max_std=1.6, search_period=4)
    env.goal.fill_(9.0)  # no task can succeed
    stds = []
    for _ in range(8):
        metrics = ppo.iterate(env)
        assert metrics["policy/mean_kl"] < 0.1  # a swing is no change of the policy that acted
        stds.append(ppo.policy.log_std.detach().exp())  # of the next iteration
    swing = torch.tensor(2 * [0.4, 0.1, 0.4, 1.6])
    assert_close(torch.stack(stds), torch.stack([swing, swing.roll(2)], 1)[..., None].expand(8, 2, 2))


def test_noise_is_its_own_before_the_frame_at_which_the_swing_starts() -> None:
    env = PointMass((16, 16))
    ppo = make(env, search_std=0.1, max_std=1.6, search_period=4, search_std_start=3 * 16 * 32)  # three iterations
    env.goal.fill_(9.0)  # no task can succeed
    bounds = []
    for _ in range(4):
        ppo.iterate(env)
        bounds.append((ppo.policy.lowest[0].exp().item(), ppo.policy.highest[0].exp().item()))
    assert_close(torch.tensor(bounds), torch.tensor([[0.02, 1.6], [0.02, 1.6], [0.4, 0.4], [1.6, 1.6]]))


@pytest.mark.parametrize("settings", [{"search_std": 0.1, "search_period": 7}, {"max_std": 0.3, "initial_std": 0.3}])
def test_a_run_that_continues_acts_within_the_new_bounds_of_the_noise(settings: dict[str, Any]) -> None:
    env = PointMass((16, 16))
    before, after = make(env), make(env, **settings)
    env.goal.fill_(9.0)  # no task can succeed
    for _ in range(3):
        before.iterate(env)
    assert before.policy.log_std.exp().min() > 0.8
    after.load_state_dict(before.state_dict())
    policy = after.policy
    assert ((policy.lowest <= policy.log_std) & (policy.log_std <= policy.highest)).all()
    assert after.iterate(env)["policy/mean_kl"] < 0.1


def test_noise_of_a_task_that_succeeds_is_its_own() -> None:
    env = PointMass((16, 16))
    ppo = make(env, search_std=0.1, final_std=0.5, max_std=1.6, search_period=4)
    env.goal = torch.where(env.task.unsqueeze(-1) == 0, env.goal, 9.0)  # the second task cannot succeed
    for _ in range(8):  # then the noise of the first task is at its highest, that of the second at its lowest
        ppo.iterate(env)
    share = ppo.actor.success.rate()[0]
    assert share > 0.03
    assert_close(ppo.policy.highest[:, 0].exp(), torch.stack([1.6 * (0.5 / 1.6) ** share, torch.tensor(0.1)]))
    assert_close(ppo.policy.lowest[:, 0].exp(), torch.stack([1.6 * (0.02 / 1.6) ** share, torch.tensor(0.1)]))


def excess_over_mean(ppo: PPO) -> torch.Tensor:
    """Return how far the actions of the last rollout were from the policy's own means (T, N, A), if it hardly moved."""
    rollout = ppo.rollout
    with torch.no_grad():
        means = [ppo.actor.at(obs, ppo.task)[0] for obs in rollout.obs]
    return rollout.action - torch.stack(means)


def test_noise_of_a_task_that_fails_is_correlated_in_time() -> None:
    env = PointMass((64, 64))
    ppo = make(env, search_correlation=0.9)
    env.goal = torch.where(env.task.unsqueeze(-1) == 0, env.goal, 9.0)  # the second task cannot succeed
    for _ in range(12):
        ppo.iterate(env)
        share = 0.9 * (1 - ppo.actor.success.rate())
    ppo.cfg.lr = 0.0  # so that the means can still be computed after the iteration
    ppo.iterate(env)
    assert share[0] < 0.6 and share[1] == 0.9
    for task in range(2):
        own = excess_over_mean(ppo)[:, env.task == task]
        correlation = (own[1:] * own[:-1]).sum() / own[:-1].square().sum()
        assert_close(correlation, share[task], rtol=0, atol=0.05)


def test_noise_is_white_before_the_frame_at_which_the_correlation_starts() -> None:
    env = PointMass((64,))
    ppo = make(env, search_correlation=0.9, search_correlation_start=2 * 16 * 64)  # two iterations
    env.goal.fill_(9.0)  # the task cannot succeed
    found = []
    for _ in range(4):
        ppo.iterate(env)
        noise = excess_over_mean(ppo)
        found.append((noise[1:] * noise[:-1]).mean() / noise.square().mean())
    assert_close(torch.stack(found), torch.tensor([0.0, 0.0, 0.9, 0.9]), rtol=0, atol=0.1)


def test_correlated_noise_of_a_task_that_fails_has_its_own_bound() -> None:
    env = PointMass((16, 16))
    ppo = make(
        env,
        search_correlation=0.9,
        search_correlation_start=3 * 16 * 32,  # three iterations
        search_correlation_std=0.4,
        max_std=1.6,
    )
    env.goal = torch.where(env.task.unsqueeze(-1) == 0, env.goal, 9.0)  # the second task cannot succeed
    for iteration in range(8):
        ppo.iterate(env)
        success = ppo.actor.success.rate()
        lowest = 0.4 if iteration >= 2 else 1.6
        assert_close(ppo.policy.highest[:, 0].exp(), lowest * (1.6 / lowest) ** success)
    assert success[0] > 0.03 and success[1] == 0
    assert ppo.policy.log_std[1].exp().max() <= 0.4 + 1e-6


@pytest.mark.parametrize("settings", [{}, {"final_std": 0.5}])
def test_correlated_actions_have_the_density_that_the_loss_computes(settings: dict[str, Any]) -> None:
    env = PointMass((16, 16))
    ppo = make(env, search_correlation=0.9, lr=1e-9, **settings)  # the policy that learns is the one that acted
    for _ in range(4):
        metrics = ppo.iterate(env)
        assert metrics["policy/mean_kl"] < 1e-6
        assert metrics["policy/mean_clip_fraction"] == 0
    share = ppo.actor.share
    assert share is not None and share.min() > 0.5
    rollout = ppo.rollout
    wide = rollout.mean[1:] - rollout.mean[1:].mean(dim=1, keepdim=True)
    assert wide.std() > 0.3  # the means follow the noise, which the policy's own means do not


def test_noise_goes_on_where_the_last_rollout_ended() -> None:
    env = PointMass((64,))
    ppo = make(env, search_correlation=0.9, lr=1e-9)
    env.goal.fill_(9.0)
    for _ in range(2):
        ppo.iterate(env)
    end = [each.clone() for each in ppo.rollout.end]
    last = excess_over_mean(ppo)[-1]
    ppo.iterate(env)
    for found, expected in zip(ppo.rollout.before, end, strict=True):
        assert_close(found, expected, rtol=0, atol=0)
    first = excess_over_mean(ppo)[0]
    assert_close((first * last).sum() / last.square().sum(), torch.tensor(0.9), rtol=0, atol=0.08)


def test_a_run_without_correlation_draws_the_noise_that_it_drew_before() -> None:
    env, other = PointMass((8,)), PointMass((8,))
    plain, zero = make(env, solved_weight=0.5), make(other, solved_weight=0.5, search_correlation=1e-9)
    for _ in range(3):
        plain.iterate(env)
        zero.iterate(other)
    assert_close(plain.rollout.action, zero.rollout.action, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"search_period": 10}, r"algo\.search_std and algo\.search_period need each other"),
        ({"search_std": 0.3}, r"algo\.search_std and algo\.search_period need each other"),
        ({"search_std": 3.0, "search_period": 10}, r"algo\.search_std"),
        ({"first_lr": 1e-4}, r"algo\.first_lr starts algo\.schedule=adaptive; set that"),
        ({"first_lr": 1e-6, "schedule": "adaptive"}, r"algo\.first_lr"),
        ({"first_lr": 1e-1, "schedule": "adaptive"}, r"algo\.first_lr"),
        (
            {"search_correlation_std": 0.5},
            r"algo\.search_correlation_std bounds correlated noise; set algo\.search_corr",
        ),
        (
            {"search_correlation": 0.9, "search_correlation_std": 0.5, "search_std": 0.3, "search_period": 9},
            r"algo\.search_correlation_std and algo\.search_std bound the same noise",
        ),
        ({"search_correlation": 0.9, "search_correlation_std": 2.5}, r"algo\.search_correlation_std"),
        ({"search_correlation_start": 9}, r"algo\.search_correlation_start delays algo\.search_correlation; set that"),
        ({"search_std_start": 9}, r"algo\.search_std_start delays algo\.search_std; set that"),
        ({"search_std": 0.3, "search_period": 10, "task_std": False}, r"algo\.search_std .* needs algo\.task_std=true"),
    ],
)
def test_settings_that_need_each_other(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        PPOConfig(**settings).check_together("algo.")


def test_bounding_the_noise_is_no_change_of_the_policy_that_acted() -> None:
    env = PointMass((16, 16))
    ppo = make(env, final_std=0.1, max_std=1.0, lr=1e-9)  # the noise begins at its upper bound
    for _ in range(15):
        metrics = ppo.iterate(env)
        assert metrics["policy/mean_kl"] < 1e-6
    assert ppo.policy.log_std.exp().max() < 0.95


@pytest.mark.parametrize(
    "settings",
    [
        {"final_std": 0.1},
        {"search_std": 0.1, "search_period": 5},
        {"final_entropy_coef": 0.0},
        {"search_entropy_coef": 0.1},
        {"search_correlation": 0.9},
        {"solved_weight": 0.1},
    ],
)
def test_noise_is_resumed_bit_for_bit(settings: dict[str, float]) -> None:
    assert_resumes(lambda env: make(env, total_frames=600, **settings), before=2)
