"""SAC on the point mass: densities, targets and temperatures computed by hand, and learning."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from helpers.learning import METHODS, assert_solves, assert_trains, context_of, depends_on
from helpers.toy import PointMass
from torch.distributions import Normal, TanhTransform, TransformedDistribution
from torch.testing import assert_close

from polytask.algos.sac import SAC, AlphaRows, SACActorRows, SACConfig, SACCriticRows, SquashedPolicy, Temperature, draw
from polytask.algos.shared.replay import ReplayBatch
from polytask.errors import UserError
from polytask.grads import GRADS
from polytask.nets.bro import BroConfig
from polytask.nets.mlp import MlpConfig
from polytask.nets.simba_v2 import SimbaV2Config
from polytask.nets.soft_modular import SoftModularConfig
from polytask.settings import check_values

SMALL = {"steps_per_iteration": 8, "batch": 48, "learning_starts": 4, "updates_per_step": 1, "capacity": 5000}
LEARN = {"batch": 384, "updates_per_step": 1, "lr": 3e-3, "alpha_lr": 1e-2, "tau": 0.05, "n_step": 3, "gamma": 0.9}
CATEGORICAL = {"critic": "categorical", "twin": "mean"}


def make(env: PointMass, *, grads: Any = None, critic_net: Any = None, **settings: Any) -> SAC:
    """Build a small SAC for the environment."""
    context = context_of(env, MlpConfig(hidden=[64, 64], activation="relu"), grads)
    return SAC(SACConfig(**{**SMALL, **settings}), replace(context, critic_net=critic_net))


def test_point_mass_is_solved() -> None:
    env = PointMass((32, 32, 32))
    metrics = assert_solves(make(env, **LEARN, steps_per_iteration=32, capacity=50_000), env, iterations=6)
    assert metrics["policy/alpha"] < 0.05  # from 0.1; the temperature falls while the entropy exceeds its target


@pytest.mark.parametrize("own", [{}, CATEGORICAL, {"critic": "categorical", "twin": "min"}])
def test_categorical_critics_need_no_more_steps_than_squared_errors(own: dict[str, Any]) -> None:
    env = PointMass((32, 32, 32))
    metrics = assert_solves(make(env, **LEARN, **own, steps_per_iteration=28, capacity=50_000), env, iterations=4)
    assert metrics.get("value/at_bounds", torch.zeros(())) < 0.01  # the grid contains soft returns of all reward scales


def test_small_actor_learns_from_a_large_critic_with_task_embeddings() -> None:
    env = PointMass((32, 32, 32))
    settings = {**LEARN, **CATEGORICAL, "lr": 1e-3, "weight_decay": 1e-2}
    critic = BroConfig(hidden=64, task_code="embedding")
    sac = make(env, **settings, steps_per_iteration=32, capacity=50_000, critic_net=critic)
    assert_solves(sac, env, iterations=6)


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


def test_log_standard_deviations_are_squashed_into_their_range() -> None:
    raw = torch.tensor([[-50.0, 0.0, 0.5, 50.0]], requires_grad=True)
    policy = SquashedPolicy(lambda obs, task: torch.cat([torch.zeros(1, 4), raw], dim=-1), -5.0, 2.0)
    _, log_std = policy(torch.zeros(1, 3), torch.zeros(1, dtype=torch.int64))
    assert_close(log_std.detach(), torch.tensor([[-5.0, -1.5, -1.5 + 3.5 * math.tanh(0.5), 2.0]]))
    log_std.sum().backward()
    assert_close(raw.grad[0, 1], torch.tensor(3.5))


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


def test_two_whole_updates_equal_the_equations() -> None:
    env, updates = PointMass((3, 2)), 2
    settings = {"tau": 0.25, "lr": 1e-2, "alpha_lr": 3e-2, "initial_alpha": 0.3, "max_grad_norm": 0.5, "n_step": 3}
    sac = make(env, **settings, learning_starts=9)
    sac.iterate(env)  # eight random steps, no update yet
    policy, critic, target = (copy.deepcopy(net) for net in (sac.policy, sac.critic, sac.target))
    log_alpha = torch.full((2,), math.log(0.3), requires_grad=True)
    rates = ((list(critic.parameters()), 1e-2), (list(policy.parameters()), 1e-2), ([log_alpha], 3e-2))
    steps = [torch.optim.Adam(parameters, lr) for parameters, lr in rates]
    twin = torch.Generator()
    twin.set_state(sac.generator.get_state())

    def descend(optimizer: torch.optim.Adam, losses: torch.Tensor, limit: float = math.inf) -> None:
        """Take one step on the mean of the tasks' mean losses (K, b), with a bounded gradient."""
        optimizer.zero_grad()
        losses.mean(dim=1).mean().backward()
        torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], limit)
        optimizer.step()

    def act(obs: torch.Tensor, task: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_std = (part.view(2, 24, 2) for part in policy(obs.flatten(0, 1), task.flatten()))
        before = mean + log_std.exp() * noise
        density = Normal(mean, log_std.exp()).log_prob(before) - (1 - before.tanh().square() + 1e-9).log()
        return before.tanh(), density.sum(dim=-1)

    def value(net: Any, obs: torch.Tensor, action: torch.Tensor, task: torch.Tensor) -> torch.Tensor:
        return net(obs.flatten(0, 1), action.flatten(0, 1), task.flatten()).view(2, 2, 24)  # critics, tasks, rows

    for _ in range(updates):
        batch = sac.experience.sample(24, twin)
        first, second = (torch.randn(2, 24, 2, generator=twin) for _ in range(2))
        alpha = log_alpha.detach().exp()[:, None]
        with torch.no_grad():
            action, density = act(batch.next_obs, batch.task, first)
            least = value(target, batch.next_obs, action, batch.task).amin(dim=0)
            goal = batch.reward + batch.discount * (least - alpha * density)
        descend(steps[0], (value(critic, batch.obs, batch.action, batch.task) - goal).square().sum(dim=0), 0.5)
        action, density = act(batch.obs, batch.task, second)
        descend(steps[1], alpha * density - value(critic, batch.obs, action, batch.task).amin(dim=0), 0.5)
        density = act(batch.obs, batch.task, second)[1].detach()  # of the policy that has moved
        descend(steps[2], -log_alpha.exp()[:, None] * (density - 2.0))  # the target entropy is minus two
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), critic.parameters(), strict=True):
                slow.copy_(0.75 * slow + 0.25 * fast)
        sac._update_once()

    assert_close(sac.temperature.log_alpha, log_alpha, rtol=0, atol=1e-5)
    for found, expected in ((sac.critic, critic), (sac.policy, policy), (sac.target, target)):
        assert_close(list(found.parameters()), list(expected.parameters()), rtol=0, atol=2e-4)


def test_the_temperature_is_reported_of_each_task_and_on_average() -> None:
    sac = make(env := PointMass((3, 2, 2)), alpha_lr=3e-2)
    metrics = sac.iterate(env)
    alpha = sac.temperature.log_alpha.detach().exp()
    assert_close(metrics["policy/alpha"], alpha.mean())
    assert_close(torch.stack([metrics[f"per_task/goal-{k}/alpha"] for k in range(3)]), alpha)


def test_rewards_may_fill_half_of_the_grid_because_entropy_needs_the_rest() -> None:
    bounds = [make(PointMass((2, 2)), critic=critic).values.bound for critic in ("mse", "categorical")]
    assert bounds == [10.0, 5.0]


def test_the_critics_encoders_have_a_share_of_their_own() -> None:
    env = PointMass((3, 2))
    net = SoftModularConfig(modules=2, layers=2, width=8, state_hidden=[8], task_hidden=[8], feature_dim=8, form="mtrl")
    sac = make(env, tau=0.25, encoder_tau=1.0, critic_net=net)
    for _ in range(2):
        sac.iterate(env)
    online = dict(sac.critic.named_parameters())
    at_once = {name for name, slow in sac.target.named_parameters() if torch.equal(slow, online[name])}
    assert at_once == {name for name in online if "_encoder." in name}


def test_means_and_spreads_of_simba_v2_have_heads_of_their_own() -> None:
    env = PointMass((3, 2))
    context = context_of(env, SimbaV2Config(hidden=8, blocks=1))
    sac = SAC(SACConfig(**SMALL), context)
    assert len(sac.policy.net.other_heads) == 1
    assert not any(len(net.other_heads) for net in sac.critic.nets)
    sac.iterate(env)
    for head in (sac.policy.net, sac.policy.net.other_heads[0]):  # both learn, and stay on the sphere
        lengths = head.pre_head.weight.norm(dim=-1)
        assert_close(lengths, torch.ones_like(lengths))
        assert head.head.linear.bias.abs().min() > 0


def test_without_exploration_the_action_is_the_squashed_mean() -> None:
    env = PointMass((3, 2))
    sac = make(env)
    sac.iterate(env)
    mean, _ = sac.policy(sac.experience.obs_norm.normalize(env.obs, env.task), env.task)
    for _ in range(2):
        assert_close(sac.act(env.obs, env.task, explore=False), mean.tanh().detach(), rtol=0, atol=0)
    noisy = [sac.act(env.obs, env.task, explore=True) for _ in range(2)]
    assert (noisy[0] != noisy[1]).all()


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


def test_tasks_may_weigh_by_their_temperatures() -> None:
    env = PointMass((3, 2))
    plain, weighed = (make(env, weigh_by_temperature=on) for on in (False, True))
    for sac in (plain, weighed):
        sac.temperature.log_alpha.data.copy_(torch.tensor([1.0, 1.0 + math.log(3)]).log())
    obs, noise, task = torch.randn(6, 3), torch.randn(6, 2), torch.tensor([0, 1] * 3)
    factors = torch.tensor([1.5, 0.5] * 3)  # exp(-alpha) as 3 to 1, with mean one
    actor = SACActorRows(obs, task, noise, torch.ones(6))
    critic = SACCriticRows(obs, task, noise.clamp(-1, 1), torch.randn(6))
    for name, rows in (("actor", actor), ("critic", critic)):
        before, after = (sac.learners[name].backward.loss(sac.learners[name].net, rows) for sac in (plain, weighed))
        assert_close(after, factors * before)
    losses = weighed.learners["critic"].backward.loss(weighed.critic, critic)
    assert not depends_on(losses, weighed.temperature.log_alpha)


def test_categorical_targets_shift_the_mixture_by_reward_and_entropy() -> None:
    env = PointMass((3, 2))
    sac = make(env, **CATEGORICAL, atoms=5, min_value=-2.0, max_value=2.0, initial_spread=math.inf)
    batch = sac_batch(sac, env)
    batch = batch._replace(reward=torch.tensor([[0.5, 0.5], [1.0, 1.0]]), discount=torch.tensor([[0.5, 0.5], [1, 0]]))
    noise = torch.zeros_like(batch.action)
    sac.policy = lambda obs, task: (torch.zeros(4, 2), torch.full((4, 2), -0.5 * math.log(2 * math.pi)))
    # At the mean, every entry has the density 1: without entropy a target is reward + discount * value.
    first = torch.tensor([[0.0, 0, 1, 0, 0]]).expand(4, -1)
    second = torch.tensor([[0.0, 0, 0, 1, 0]]).expand(4, -1)
    sac.target = lambda obs, action, task: torch.stack([first, second]).log()
    targets, _ = sac._targets(batch, noise)
    half = [0.0, 0.0, 0.25, 0.75, 0.0]  # 0 becomes 0.5 and 1 becomes 1
    assert_close(targets, torch.tensor([[half, half], [[0.0, 0, 0, 0.5, 0.5], [0, 0, 0, 1, 0]]]))

    # Twice as wide, an action of two entries has the log-density -2 log 2. With alpha 1 / log 2, this is worth 2.
    sac.policy = lambda obs, task: (torch.zeros(4, 2), torch.full((4, 2), math.log(2) - 0.5 * math.log(2 * math.pi)))
    with torch.no_grad():
        sac.temperature.log_alpha.fill_(-math.log(math.log(2)))
    targets, _ = sac._targets(batch, noise)
    full = [0.0, 0.0, 0.0, 0.25, 0.75]  # 0.5 + 0.5 * (0 + 2) = 1.5 and 0.5 + 0.5 * (1 + 2) = 2
    assert_close(targets, torch.tensor([[full, full], [[0.0, 0, 0, 0, 1], [0, 0, 0, 1, 0]]]))  # no entropy at an end


def sac_batch(sac: SAC, env: PointMass) -> ReplayBatch:
    """Return two rows of each task, after one iteration."""
    sac.iterate(env)
    return sac.experience.sample(2, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("twin", ["min", "mean"])
@pytest.mark.parametrize("critic", ["mse", "categorical"])
def test_actor_climbs_what_both_critics_give(critic: str, twin: str) -> None:
    env = PointMass((3, 2))
    sac = make(env, critic=critic, twin=twin)
    sac.iterate(env)
    obs, task, noise = torch.randn(6, 3), torch.zeros(6, dtype=torch.int64), torch.randn(6, 2)
    action, density = draw(*sac.policy(obs, task), noise)
    output = sac.critic(obs, action, task)
    atoms = torch.linspace(-10, 10, 101)
    values = output.squeeze(-1) if critic == "mse" else (output - atoms.square() / 8).softmax(-1) @ atoms
    joined = values.mean(dim=0) if twin == "mean" else torch.minimum(*values)
    loss = sac._actor_loss(sac.policy, SACActorRows(obs, task, noise, torch.full((6,), 0.7)))
    assert_close(loss, 0.7 * density - joined)
    assert not any(depends_on(loss, parameter) for parameter in sac.critic.parameters())  # compiled, this costs time


@pytest.mark.parametrize("method", GRADS)
def test_categorical_critics_learn_with_every_gradient_method(method: str) -> None:
    env = PointMass((3, 2, 2))
    grads = GRADS[method][0](apply_to="both")
    critic = BroConfig(hidden=16, task_code="embedding")
    settings = {**CATEGORICAL, "steps_per_iteration": 4, "learning_starts": 2}
    assert_trains(make(env, **settings, grads=grads, critic_net=critic), env)


def test_weight_decay_shrinks_actor_and_critics_but_no_temperature() -> None:
    sac = make(PointMass((2, 2)), weight_decay=0.5, lr=0.01)
    for name, factor in {"actor": 1 - 0.01 * 0.5, "critic": 1 - 0.01 * 0.5, "alpha": 1.0}.items():
        learner = sac.learners[name]
        before = [p.detach().clone() for p in learner.net.parameters()]
        for parameter in learner.net.parameters():
            parameter.grad = torch.zeros_like(parameter)
        learner.optimizer.step()
        assert_close([p.detach() for p in learner.net.parameters()], [factor * p for p in before])


def test_bad_grids_are_named() -> None:
    with pytest.raises(UserError, match=r"algo.critic=mae is not valid"):
        check_values(SACConfig(critic="mae"), "algo.")
    with pytest.raises(UserError, match=r"algo.min_value=10.0 is not valid; it must be below algo.max_value=10.0"):
        check_values(SACConfig(min_value=10.0), "algo.")


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
@pytest.mark.parametrize("own", [{}, CATEGORICAL, {**CATEGORICAL, "bf16": True}])
@pytest.mark.parametrize("method", METHODS)
def test_point_mass_is_solved_by_captured_graphs(method: str, own: dict[str, Any]) -> None:
    env = PointMass((32, 32, 32), device="cuda")
    sac = make(env, **LEARN, **own, steps_per_iteration=32, capacity=50_000, grads=GRADS[method][0](apply_to="both"))
    assert_solves(sac, env, iterations=12)
