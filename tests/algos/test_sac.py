"""SAC on the point mass: densities, targets and temperatures computed by hand, and learning."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from helpers.learning import METHODS, assert_solves, context_of, depends_on
from helpers.toy import PointMass
from torch.distributions import Normal, TanhTransform, TransformedDistribution
from torch.testing import assert_close

from polytask.algos.sac import SAC, AlphaRows, SACActorRows, SACConfig, Temperature, draw
from polytask.grads import GRADS
from polytask.nets.mlp import MlpConfig

SMALL = {"steps_per_iteration": 8, "batch": 48, "learning_starts": 4, "updates_per_step": 1, "capacity": 5000}
LEARN = {"batch": 384, "updates_per_step": 1, "lr": 3e-3, "alpha_lr": 1e-2, "tau": 0.05, "n_step": 3, "gamma": 0.9}


def make(env: PointMass, *, grads: Any = None, **settings: Any) -> SAC:
    """Build a small SAC for the environment."""
    context = context_of(env, MlpConfig(hidden=[64, 64], activation="relu"), grads)
    return SAC(SACConfig(**{**SMALL, **settings}), context)


def test_point_mass_is_solved() -> None:
    env = PointMass((32, 32, 32))
    metrics = assert_solves(make(env, **LEARN, steps_per_iteration=32, capacity=50_000), env, iterations=6)
    assert metrics["policy/alpha"] < 0.1  # the temperature falls once the entropy exceeds its target


def test_density_of_a_squashed_action_is_torchs() -> None:
    generator = torch.Generator().manual_seed(0)
    mean, log_std, noise = (torch.randn(5, 3, generator=generator) for _ in range(3))
    action, density = draw(mean, log_std, noise)
    expected = TransformedDistribution(Normal(mean.double(), log_std.double().exp()), TanhTransform())
    before = mean.double() + log_std.double().exp() * noise.double()
    assert_close(action.double(), before.tanh(), rtol=1e-5, atol=1e-5)
    assert_close(density.double(), expected.log_prob(before.tanh()).sum(-1), rtol=1e-4, atol=1e-4)
    _, far = draw(torch.full((1, 1), 50.0), torch.zeros(1, 1), torch.zeros(1, 1))
    assert_close(far, torch.tensor([-0.5 * math.log(2 * math.pi) + 100 - 2 * math.log(2)]))  # finite, not log(0)


def test_temperature_rises_below_the_wanted_entropy_and_falls_above_it() -> None:
    sac = make(PointMass((2, 2, 2)), initial_alpha=0.5)
    assert sac.target_entropy == -2
    # Entropies 1, -2 and -5 against the target -2: too much, just right, too little.
    rows = AlphaRows(torch.tensor([0, 1, 2]), torch.tensor([-1.0, 2.0, 5.0]))
    losses = sac._alpha_loss(sac.temperature, rows)
    assert_close(losses.detach(), torch.tensor([1.5, 0.0, -1.5]))  # -0.5 * (log pi - 2)
    (gradient,) = torch.autograd.grad(losses.sum(), sac.temperature.log_alpha)
    assert_close(gradient, torch.tensor([1.5, 0.0, -1.5]))
    sac.learners["alpha"].step(AlphaRows(rows.task.view(3, 1), rows.log_prob.view(3, 1)))
    alpha = sac.temperature.log_alpha.exp()
    assert alpha[0] < 0.5 and alpha[1] == 0.5 and alpha[2] > 0.5


def test_every_task_pays_its_own_temperature() -> None:
    temperature = Temperature(3, 1.0)
    with torch.no_grad():
        temperature.log_alpha.copy_(torch.tensor([1.0, 2.0, 3.0]).log())
    assert_close(temperature(torch.tensor([2, 0, 2, 1])).detach(), torch.tensor([3.0, 1.0, 3.0, 2.0]))


def test_targets_are_reward_and_the_smaller_soft_value_of_what_followed() -> None:
    env = PointMass((3, 2))
    sac = make(env, initial_alpha=0.3)
    for _ in range(2):
        sac.iterate(env)
    batch = sac.experience.sample(5, torch.Generator().manual_seed(0))
    batch = batch._replace(discount=batch.discount * torch.tensor([[1.0, 0.0, 1.0, 1.0, 1.0]]))
    noise = torch.randn(batch.action.shape, generator=torch.Generator().manual_seed(1))
    targets, temperatures = sac._targets(batch, noise)
    alpha = sac.temperature.log_alpha.detach().exp()
    assert_close(temperatures, alpha[batch.task])
    mean, log_std = sac.policy(batch.next_obs.flatten(0, 1), batch.task.flatten())
    before = mean + log_std.exp() * noise.flatten(0, 1)
    action = torch.tanh(before)
    density = (Normal(mean, log_std.exp()).log_prob(before) - torch.log1p(-action.square())).sum(-1)
    x = torch.cat([batch.next_obs.flatten(0, 1), action], dim=-1)
    values = [net(x, batch.task.flatten()) for net in sac.target.nets]
    soft = torch.minimum(*values).squeeze(-1) - alpha[batch.task.flatten()] * density
    expected = batch.reward + batch.discount * soft.view(2, 5)
    assert_close(targets, expected.detach(), rtol=1e-4, atol=1e-4)
    assert_close(targets[:, 1], batch.reward[:, 1])  # the target of a terminated row is its reward


def test_actor_follows_the_smaller_critic_and_leaves_both_alone() -> None:
    env = PointMass((3, 2))
    sac = make(env)
    sac.iterate(env)
    before = [p.clone() for p in sac.critic.parameters()]
    for parameter in sac.critic.parameters():
        parameter.grad = None
    shape = (2, 4)
    rows = SACActorRows(torch.randn(*shape, 3), torch.zeros(shape).long(), torch.randn(*shape, 2), torch.ones(shape))
    sac.learners["actor"].step(rows)
    assert all(p.grad is None for p in sac.critic.parameters())
    assert_close(list(sac.critic.parameters()), before, rtol=0, atol=0)
    loss = sac._actor_loss(sac.policy, SACActorRows(*(column.flatten(0, 1) for column in rows)))
    assert not any(depends_on(loss, parameter) for parameter in sac.critic.parameters())  # compiled, this costs time

    obs, task, noise = torch.randn(6, 3), torch.zeros(6, dtype=torch.int64), torch.randn(6, 2)
    from_loss = sac._actor_loss(sac.policy, SACActorRows(obs, task, noise, torch.full((6,), 0.7)))
    action, density = draw(*sac.policy(obs, task), noise)
    expected = 0.7 * density - sac.critic(obs, action, task).squeeze(-1).min(dim=0).values
    assert_close(from_loss, expected)


def test_replay_is_filled_anew_by_the_trained_policy() -> None:
    env = PointMass((5, 4, 3))
    sac = make(env, save_replay=False, learning_starts=12)
    sac.loop.steps = 24  # after the random steps, like a resumed run
    sac.policy.net.head.linear.weight.data.zero_()  # makes the policy's actions recognizable: near tanh(bias)
    sac.policy.net.head.linear.bias.data.copy_(torch.tensor([2.0, -2.0, -1e9, -1e9]))
    sac.iterate(env)
    expected = torch.tensor([2.0, -2.0]).tanh().expand(8, 12, 2)
    assert_close(sac.experience.replay.ring.action[:8], expected, rtol=0, atol=0.02)  # the standard deviation is e^-5


@pytest.mark.gpu
@pytest.mark.parametrize("method", METHODS)
def test_point_mass_is_solved_by_captured_graphs(method: str) -> None:
    env = PointMass((32, 32, 32), device="cuda")
    sac = make(env, **LEARN, steps_per_iteration=32, capacity=50_000, grads=GRADS[method][0](apply_to="both"))
    assert_solves(sac, env, iterations=12)
