"""PPO on the point mass: learning, targets and losses, the weights of tasks in minibatches, and resuming."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from helpers.learning import (
    METHODS,
    assert_acts_in_bounds,
    assert_reports,
    assert_resumes,
    assert_solves,
    assert_trains,
)
from helpers.ppo import make, rows_of
from helpers.toy import PointMass, success_rate
from torch.distributions import Normal
from torch.testing import assert_close

from polytask import algos
from polytask.algos import AlgoContext
from polytask.algos.ppo import PPO
from polytask.errors import UserError
from polytask.grads import GRADS
from polytask.nets import NETS
from polytask.nets.mlp import MlpConfig, MultiheadConfig


def test_point_mass_is_solved() -> None:
    env = PointMass((32, 32, 32))
    ppo = make(env, minibatch=512, epochs=5, net=MlpConfig(hidden=[64, 64]))
    before = success_rate(PointMass((64, 64, 64), seed=1), ppo.act)
    metrics = assert_solves(ppo, env, iterations=20)
    assert before.min() < 0.5
    assert metrics["policy/std"] < 1.0


@pytest.mark.parametrize("method", METHODS)
def test_resumed_run_equals_an_unbroken_one_bit_for_bit(method: str) -> None:
    assert_resumes(lambda env: make(env, grads=GRADS[method][0](apply_to="both")))


def test_old_log_probabilities_are_those_of_the_policy_that_acted() -> None:
    env = PointMass((4, 4))
    ppo = make(env)
    ppo.iterate(env)  # now observations are normalized
    ppo.cfg.lr = 0.0
    noise = torch.Generator()
    noise.set_state(ppo.generator.get_state())
    mean = ppo.obs_norm.mean.clone()
    ppo.iterate(env)

    deviation = ppo.policy.log_std.detach().exp()[env.task]
    draws = torch.stack([torch.randn(8, 2, generator=noise) for _ in range(16)])  # (T, N, A)
    centre = ppo.rollout.action - deviation * draws
    expected = Normal(centre, deviation).log_prob(ppo.rollout.action).sum(-1)
    assert_close(ppo.rows.log_prob.view(16, 8), expected, rtol=1e-4, atol=1e-4)
    assert (ppo.obs_norm.mean != mean).any()


def test_ratio_is_one_until_the_policy_moves() -> None:
    env = PointMass((4, 4))
    ppo = make(env)
    ppo.iterate(env)
    ppo.cfg.lr = 0.0
    metrics = ppo.iterate(env)
    assert metrics["policy/kl"].abs() < 1e-7
    assert metrics["policy/clip_fraction"] == 0
    rows = ppo.loop.last()
    ratio = torch.tensor([1.5, 1.1, 0.9, 0.5, 0.6, 0.7, 0.75, 1.0]).repeat(len(rows.log_prob) // 8)  # to 0.8 and 1.2
    metrics = ppo.actor.metrics(rows._replace(log_prob=rows.log_prob - ratio.log()))
    assert metrics["policy/clip_fraction"] == 5 / 8


def test_saturated_counts_means_that_noise_cannot_bring_back_into_the_range() -> None:
    env = PointMass((4, 4))
    ppo = make(env, lr=0.0)
    last = ppo.policy.net.head.linear
    with torch.no_grad():
        last.weight.zero_()
        last.bias.copy_(torch.tensor([-2.4, 2.4]))
        ppo.policy.log_std.copy_(torch.tensor([[0.69, 0.71], [0.69, 5.0]]).log())  # bounds: 2.38, 2.42, 2.38, 11
    assert ppo.iterate(env)["policy/saturated"] == 0.5


def test_targets_agree_with_a_loop_over_steps() -> None:
    env = PointMass((2, 3))
    ppo = make(env, horizon=40, lr=0.0, value_decay=1.0)
    ppo.iterate(env)
    norm = {name: buffer.clone() for name, buffer in ppo.obs_norm.named_buffers()}
    mean, std = ppo.value_norm.mean.float().squeeze(-1)[env.task], ppo.value_norm.variance.sqrt().float()[env.task, 0]
    ppo.iterate(env)
    rollout = ppo.rollout
    assert rollout.terminated.any() and rollout.truncated.any()

    @torch.no_grad()
    def value(obs: torch.Tensor) -> torch.Tensor:
        seen = (obs - norm["mean"][env.task]) / (norm["variance"][env.task] + 1e-8).sqrt()
        return ppo.critic(seen.clamp(-10, 10).float(), env.task).squeeze(-1) * std + mean

    advantage, following = torch.zeros(40, 5), torch.zeros(5)
    for t in reversed(range(40)):
        bootstrap = torch.where(rollout.terminated[t], 0.0, value(rollout.next_obs[t]))
        delta = rollout.reward[t] + 0.99 * bootstrap - value(rollout.obs[t])
        following = delta + 0.99 * 0.95 * torch.where(rollout.done[t], 0.0, following)
        advantage[t] = following
    returns = advantage + torch.stack([value(obs) for obs in rollout.obs])
    assert_close(ppo.rows.target.view(40, 5) * spread(ppo)[env.task] + centre(ppo)[env.task], returns)
    for k in range(2):
        rows = advantage[:, env.task == k]
        expected = (rows - rows.mean()) / rows.std(correction=0)
        assert_close(ppo.rows.advantage.view(40, 5)[:, env.task == k], expected, rtol=1e-3, atol=1e-4)


def test_no_row_passes_through_a_network_twice_before_the_updates() -> None:
    env = PointMass((2, 3))
    ppo = make(env, horizon=40)
    rows = {"policy": 0, "critic": 0}

    def count(name: str, obs: torch.Tensor) -> None:
        rows[name] += 0 if torch.is_grad_enabled() else len(obs)

    ppo.policy.register_forward_pre_hook(lambda _, inputs: count("policy", inputs[0]))
    ppo.critic.register_forward_pre_hook(lambda _, inputs: count("critic", inputs[0]))
    ppo.loop.collect(env)
    assert rows == {"policy": 40 * 5, "critic": 0}
    ppo._compute_values(), ppo._bootstrap(), ppo._compute_targets()
    last = 5 + int(ppo.rollout.truncated[:-1].sum())  # observations that no action followed
    assert rows == {"policy": 40 * 5, "critic": 40 * 5 + last}


def centre(ppo: PPO) -> torch.Tensor:
    return ppo.value_norm.mean.float().squeeze(-1)


def spread(ppo: PPO) -> torch.Tensor:
    return ppo.value_norm.variance.sqrt().float().squeeze(-1)


def test_return_statistics_forget_earlier_iterations() -> None:
    env = PointMass((2, 3))
    ppo = make(env, value_decay=0.5)
    returns = []
    for _ in range(2):
        ppo.iterate(env)
        returns.append(ppo.rows.target.view(16, 5) * spread(ppo)[env.task] + centre(ppo)[env.task])
    assert ppo.value_norm.count.tolist() == [1.5 * 32, 1.5 * 48]  # half of the first iteration's rows
    for k in range(2):
        first, second = (each[:, env.task == k].mean() for each in returns)
        assert_close(centre(ppo)[k], (first + 2 * second) / 3, rtol=1e-4, atol=1e-5)


def test_explained_variance_by_hand() -> None:
    ppo = make(PointMass((2, 2)))
    ppo.value_norm.variance.copy_(torch.tensor([[4.0], [0.25]]))
    returns = torch.tensor([[0.0, 4.0, 0.0, 1.0]])  # variances 4 and 0.25: one each, in units of their task
    advantage = torch.tensor([[0.0, 2.0, 0.0, 0.5]])  # errors 1 and 0.0625: a quarter each
    assert_close(ppo._explained_variance(advantage, returns.unsqueeze(-1)).float(), torch.tensor(0.75))
    advantage = torch.tensor([[0.0, 0.0, 0.0, 2.0]])  # errors 0 and 1: only the second task's values are useless
    assert_close(ppo._explained_variance(advantage, returns.unsqueeze(-1)).float(), torch.tensor(-1.0))


@pytest.mark.parametrize("task_std", [True, False])
def test_standard_deviation_keeps_the_bounds_of_the_settings(task_std: bool) -> None:
    policy = make(PointMass((2, 2)), task_std=task_std, min_std=0.3, initial_std=0.5, max_std=0.7).policy
    assert_close(policy.log_std.exp(), torch.full_like(policy.log_std, 0.5))
    for drawn, kept in ((-9.0, 0.3), (9.0, 0.7)):
        policy.log_std.data.fill_(drawn)
        policy.after_step()
        assert_close(policy.log_std.exp(), torch.full_like(policy.log_std, kept))


def test_tasks_that_share_a_standard_deviation_all_report_it() -> None:
    env = PointMass((2, 2))
    metrics = make(env, task_std=False, initial_std=0.5, lr=0.0, search_entropy_coef=0.01).iterate(env)
    assert [metrics[f"per_task/goal-{k}/std"].item() for k in range(2)] == pytest.approx([0.5, 0.5])


def test_famo_looks_back_after_every_update_and_reports_weights() -> None:
    env = PointMass((4, 4))
    ppo = make(env, grads=GRADS["famo"][0](apply_to="both"), minibatch=32, epochs=2)
    metrics = ppo.iterate(env)
    for kind in ("policy", "value"):  # weights are convex, so their means over the updates are too
        total = metrics[f"per_task/goal-0/{kind}_weight"] + metrics[f"per_task/goal-1/{kind}_weight"]
        assert total.item() == pytest.approx(1.0)
    assert [learner.backward.method.state["steps"] for learner in ppo.learners.values()] == [8, 8]  # 4 minibatches


def test_tasks_weigh_the_same_whatever_their_worlds() -> None:
    env = PointMass((4, 12))  # 64 and 192 rows; one minibatch has 128 of each, so all rows of the first task twice
    ppo = make(env, net=MultiheadConfig(hidden=[16]), lr=0.0, epochs=1, minibatch=256, max_grad_norm=1e9)
    metrics = ppo.iterate(env)
    few = env.task.repeat(16) == 0
    head = ppo.critic.head
    # Observations had their initial statistics: they were not normalized, only clipped at 10.
    value = ppo.critic(ppo.rows.obs[few], ppo.rows.task[few]).squeeze(-1)
    loss = 2.0 * (value - ppo.rows.target[few]).square().mean()
    assert_close(metrics["per_task/goal-0/value_loss"], loss.detach())
    both = metrics["per_task/goal-0/value_loss"] + metrics["per_task/goal-1/value_loss"]
    assert_close(metrics["loss/value"], both / 2)
    (gradient,) = torch.autograd.grad(loss, head.weight)
    assert_close(head.weight.grad[0], gradient[0] / 2)


def test_actor_loss_by_hand() -> None:
    loss = make(PointMass((2,))).learners["actor"].backward.loss
    density = -math.log(2 * math.pi)  # of the mean, for two unit normals
    ratio = torch.tensor([1.5, 1.5, 0.5, 0.5])
    rows = rows_of(log_prob=(density - ratio.log()).tolist(), advantage=[1.0, -1.0, 1.0, -1.0])
    entropy = math.log(2 * math.pi * math.e)
    surrogate = torch.tensor([-1.2, 1.5, -0.5, 0.8])  # only gains outside 1 +- .2 are clipped
    inside, facts = loss(lambda obs, task: (torch.zeros(4, 2), torch.zeros(4, 2)), rows)
    assert facts["clip_fraction"].tolist() == [1, 1, 1, 1] and not facts["kl"].any()
    assert_close(inside, surrogate - 0.005 * entropy)

    rows = rows_of(action=[[1.3, -2.1]] * 4, log_prob=[density] * 4)
    outside, facts = loss(lambda obs, task: (rows.action, torch.zeros(4, 2)), rows)
    assert_close(outside, torch.full((4,), 1e-4 * (0.2**2 + 1.0**2) - 0.005 * entropy))
    assert_close(facts, {"kl": torch.full((4,), (1.3**2 + 2.1**2) / 2), "clip_fraction": torch.zeros(4)})


def test_critic_loss_by_hand() -> None:
    rows = rows_of(value=[0.0] * 4, target=[1.0] * 4)
    output = torch.tensor([[0.1], [0.5], [-0.5], [1.0]])  # a change above .2 towards the target counts as .2
    expected = 2.0 * torch.tensor([0.9**2, 0.8**2, 1.5**2, 0.8**2])
    for clip_value, answer in ((True, expected), (False, 2.0 * (output.squeeze(-1) - 1).square())):
        critic = make(PointMass((2,)), clip_value=clip_value).learners["critic"]
        assert_close(critic.backward.loss(lambda obs, task: output, rows), answer)


def test_categorical_critic_loss_by_hand() -> None:
    ppo = make(PointMass((2,)), critic="categorical", atoms=5, value_bound=2.0)  # atoms -2, -1, 0, 1, 2
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 9.0, 0.0]]).repeat(2, 1)
    rows = rows_of(target=[1.0, 1.0, -1.0, -1.0])
    loss = ppo.learners["critic"].backward.loss(lambda obs, task: logits, rows)
    normal = Normal(1.0, 0.75)
    mass = torch.stack([normal.cdf(x + 0.5) - normal.cdf(x - 0.5) for x in torch.arange(-2.0, 3.0)])
    mass = mass / mass.sum()
    total = math.log(4 + math.exp(9))
    expected = [math.log(5), total - 9 * mass[3], math.log(5), total - 9 * mass[1]]
    assert_close(loss, 2.0 * torch.tensor(expected))


def test_value_of_a_categorical_critic_is_its_mean() -> None:
    env = PointMass((2, 2))
    ppo = make(env, critic="categorical", atoms=11, value_bound=5.0)
    logits = ppo.critic(env.obs, env.task)  # without statistics yet, observations are not changed
    assert logits.shape == (4, 11)
    expected = (logits.softmax(-1) * torch.arange(-5.0, 6.0)).sum(-1)
    assert_close(ppo._value_at(env.obs, env.task), expected)


def test_categorical_critic_learns_and_solves_the_point_mass() -> None:
    env = PointMass((32, 32, 32))
    ppo = make(env, minibatch=512, epochs=5, net=MlpConfig(hidden=[64, 64]), critic="categorical")
    first = ppo.iterate(env)["loss/value"]
    last = assert_solves(ppo, env, iterations=19)["loss/value"]
    least = math.log(2 * math.pi * math.e * (0.75**2 + 1 / 12))  # twice the entropy of a smoothed target, in steps
    assert first > 8 > 3 > last > least


@pytest.mark.parametrize("method", METHODS)
def test_categorical_critic_is_resumed_bit_for_bit(method: str) -> None:
    assert_resumes(lambda env: make(env, grads=GRADS[method][0](apply_to="both"), critic="categorical"))


METRICS = {"loss/policy", "policy/kl", "per_task/goal-1/value_loss", "skipped/policy", "skipped/value"}


def test_metrics_have_stable_names() -> None:
    env = PointMass((3, 2))
    assert_reports(make(env), env, METRICS, "loss/value")


def test_value_loss_hardly_depends_on_the_scale_of_rewards() -> None:
    losses = []
    for scale in (1.0, 1000.0):
        env = PointMass((8, 8))
        env.scale = torch.full_like(env.scale, scale)
        ppo = make(env)
        for _ in range(3):
            metrics = ppo.iterate(env)
        losses.append(metrics["loss/value"].item())
    assert losses[1] == pytest.approx(losses[0], rel=0.5)  # unnormalized it would be a million times larger


def test_acting_without_noise_repeats_and_stays_in_bounds() -> None:
    env = PointMass((4, 4))
    assert_acts_in_bounds(make(env), env)


def test_actor_and_critic_are_clipped_apart() -> None:
    env = PointMass((4, 4))
    ppo = make(env, max_grad_norm=0.01, epochs=1, minibatch=128)
    metrics = ppo.iterate(env)
    for name, learner in ppo.learners.items():
        norm = torch.stack([p.grad.norm() for p in learner.net.parameters()]).norm()
        assert metrics[f"grad_norm/{name}"] > 0.01
        assert_close(norm, torch.tensor(0.01), rtol=1e-3, atol=0)


@pytest.mark.parametrize("method", GRADS)
def test_every_gradient_method_updates_actor_and_critic(method: str) -> None:
    run_two(grads=GRADS[method][0](apply_to="both"))


@pytest.mark.parametrize("name", NETS)
def test_every_network_serves_as_actor_and_critic(name: str) -> None:
    cfg = NETS[name][0]()
    if hasattr(cfg, "context"):
        cfg.context = "learned"  # the toy's tasks have no descriptions
    run_two(net=cfg)


@pytest.mark.parametrize("critic", ["mse", "categorical"])
def test_bfloat16_trains(critic: str) -> None:
    run_two(bf16=True, critic=critic)


def test_a_reported_rate_stays_as_it_was() -> None:
    run_two(schedule="adaptive", target_kl=1e-6)  # every epoch changes the rate


def run_two(**settings: Any) -> None:
    env = PointMass((3, 2, 2))
    assert_trains(make(env, horizon=8, epochs=1, **settings), env)


def test_bad_settings_are_named() -> None:
    env = PointMass((2, 2))
    with pytest.raises(UserError, match=r"cosine.*constant, linear, adaptive"):
        make(env, schedule="cosine")
    with pytest.raises(UserError, match=r"lr=0.1 is not valid.*max_lr"):
        make(env, schedule="adaptive", lr=0.1)
    with pytest.raises(UserError, match=r"final_std=3.0 is not valid.*max_std"):
        make(env, final_std=3.0)
    with pytest.raises(UserError, match=r"final_std.*needs algo.task_std=true"):
        make(env, final_std=0.5, task_std=False)
    with pytest.raises(UserError, match=r"MlpConfig.*ppo"):
        algos.build(MlpConfig(), AlgoContext(env.spec, env.device))


@pytest.mark.gpu
@pytest.mark.parametrize("method", METHODS)
def test_point_mass_is_solved_by_captured_graphs(method: str) -> None:
    env = PointMass((32, 32, 32), device="cuda")
    assert_solves(make(env, minibatch=512, epochs=5, grads=GRADS[method][0](apply_to="both")), env, iterations=25)
