"""SAC on the point mass: densities, targets and temperatures by hand, what it learns, and that resuming is exact."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest
import torch
from torch.distributions import Normal, TanhTransform, TransformedDistribution
from torch.testing import assert_close
from toy import PointMass, success_rate

from polytask.algos import AlgoContext
from polytask.algos.sac import SAC, ActorRows, AlphaRows, SACConfig, Temperature, draw
from polytask.grads import GRADS
from polytask.grads.mean import MeanConfig
from polytask.nets.mlp import MlpConfig, MultiheadConfig
from polytask.nets.moore import MooreConfig
from polytask.nets.simba_v2 import SimbaV2Config

SMALL = {"steps_per_iteration": 8, "batch": 48, "learning_starts": 4, "updates_per_step": 1, "capacity": 5000}
LEARN = {"batch": 384, "updates_per_step": 1, "lr": 3e-3, "alpha_lr": 1e-2, "tau": 0.05, "n_step": 3, "gamma": 0.9}

SMALL_NETS: dict[str, Any] = {
    "mlp": MlpConfig(hidden=[16]),
    "multihead": MultiheadConfig(hidden=[16]),
    "moore": MooreConfig(hidden=[16, 16]),
    "simba_v2": SimbaV2Config(hidden=16),
}


def make(env: PointMass, *, net: Any = None, grads: Any = None, **settings: Any) -> SAC:
    """Build a small SAC for the environment."""
    net = net or MlpConfig(hidden=[64, 64], activation="relu")
    context = AlgoContext(env.spec, env.device, net=net, grads=grads or MeanConfig())
    return SAC(SACConfig(**{**SMALL, **settings}), context)


def test_point_mass_is_solved() -> None:
    env = PointMass((32, 32, 32))
    sac = make(env, **LEARN, steps_per_iteration=32, capacity=50_000)
    for _ in range(6):
        metrics = sac.iterate(env)
    assert success_rate(PointMass((64, 64, 64), seed=1), sac.act).min() > 0.9
    assert metrics["policy/alpha"] < 0.1  # the price of entropy falls once there is enough of it


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
    noise = torch.Generator()
    noise.set_state(sac.generator.get_state())
    targets = sac._targets(batch)
    alpha = sac.temperature.log_alpha.detach().exp()
    mean, log_std = sac.policy(batch.next_obs.flatten(0, 1), batch.task.flatten())
    before = mean + log_std.exp() * torch.randn(2, 5, 2, generator=noise).flatten(0, 1)
    action = torch.tanh(before)
    density = (Normal(mean, log_std.exp()).log_prob(before) - torch.log1p(-action.square())).sum(-1)
    x = torch.cat([batch.next_obs.flatten(0, 1), action], dim=-1)
    values = [net(x, batch.task.flatten()) for net in sac.target.nets]
    soft = torch.minimum(*values).squeeze(-1) - alpha[batch.task.flatten()] * density
    expected = batch.reward + batch.discount * soft.view(2, 5)
    assert_close(targets, expected.detach(), rtol=1e-4, atol=1e-4)
    assert_close(targets[:, 1], batch.reward[:, 1])  # a terminated row has its reward only


def test_actor_follows_the_smaller_critic_and_leaves_both_alone() -> None:
    env = PointMass((3, 2))
    sac = make(env)
    sac.iterate(env)
    before = [p.clone() for p in sac.critic.parameters()]
    for parameter in sac.critic.parameters():
        parameter.grad = None
    shape = (2, 4)
    rows = ActorRows(torch.randn(*shape, 3), torch.zeros(shape).long(), torch.randn(*shape, 2), torch.ones(shape))
    sac.learners["actor"].step(rows)
    assert all(p.grad is None for p in sac.critic.parameters())
    assert_close(list(sac.critic.parameters()), before, rtol=0, atol=0)

    obs, task, noise = torch.randn(6, 3), torch.zeros(6, dtype=torch.int64), torch.randn(6, 2)
    from_loss = sac._actor_loss(sac.policy, ActorRows(obs, task, noise, torch.full((6,), 0.7)))
    action, density = draw(*sac.policy(obs, task), noise)
    expected = 0.7 * density - sac.critic(obs, action, task).squeeze(-1).min(dim=0).values
    assert_close(from_loss, expected)


@pytest.mark.parametrize("method", ["mean", "pcgrad", "famo"])
def test_resumed_run_equals_an_unbroken_one_bit_for_bit(method: str) -> None:
    def build(seed: int) -> tuple[PointMass, SAC]:
        env = PointMass((5, 4, 3), seed=seed)
        # Twenty steps are kept, so that the ring has been gone round by the end.
        return env, make(env, grads=GRADS[method][0](apply_to="both"), capacity=12 * 20)

    env, sac = build(0)
    sac.iterate(env)
    file = io.BytesIO()
    torch.save({"algo": sac.state_dict(), "env": env.state_dict()}, file)
    for _ in range(3):
        sac.iterate(env)

    file.seek(0)
    saved = torch.load(file, weights_only=True)
    other_env, other = build(5)
    other.load_state_dict(saved["algo"])
    other_env.load_state_dict(saved["env"])
    for _ in range(3):
        other.iterate(other_env)
    assert_close(flat(other.state_dict()), flat(sac.state_dict()), rtol=0, atol=0)


def flat(state: Any, prefix: str = "") -> dict[str, Any]:
    """Name every leaf of a nested state by its path."""
    if not isinstance(state, dict):
        return {prefix: torch.as_tensor(state)}
    return {name: leaf for key, value in state.items() for name, leaf in flat(value, f"{prefix}/{key}").items()}


def test_run_resumed_without_its_replay_fills_it_with_the_policy_before_it_learns() -> None:
    env = PointMass((5, 4, 3))
    sac = make(env, save_replay=False, learning_starts=12)
    for _ in range(3):
        sac.iterate(env)
    state = sac.state_dict()
    assert "replay" not in state["experience"]
    other = make(env, save_replay=False, learning_starts=12)
    other.load_state_dict(state)
    other.policy.net.head.linear.weight.data.zero_()  # to tell the policy's actions: near tanh(bias), not all over
    other.policy.net.head.linear.bias.data.copy_(torch.tensor([2.0, -2.0, -1e9, -1e9]))
    metrics = other.iterate(env)
    assert metrics["updates"] == 0
    assert_close(other.experience.replay.ring.action[:8], torch.tensor([2.0, -2.0]).tanh().expand(8, 12, 2), **NEAR)
    assert other.iterate(env)["updates"] == 5  # steps 12 to 16


NEAR: dict[str, Any] = {"rtol": 0, "atol": 0.02}  # the standard deviation is e^-5


def test_first_steps_are_random_and_without_updates() -> None:
    env = PointMass((5, 4, 3))
    sac = make(env, steps_per_iteration=16, learning_starts=10, updates_per_step=0.5)
    before = [p.clone() for p in sac.policy.parameters()]
    sac.policy.net.head.linear.bias.data.fill_(50.0)
    metrics = sac.iterate(env)
    action = sac.experience.replay.ring.action[:16]
    assert metrics["updates"] == 4  # after steps 10, 12, 14 and 16
    assert action[:10].abs().mean().item() == pytest.approx(0.5, abs=0.06)
    assert (action[10] == 1).all()
    assert any((old != new).any() for old, new in zip(before[:-1], list(sac.policy.parameters())[:-1], strict=True))


def test_one_world_per_task_learns_at_any_rate() -> None:
    env = PointMass((1, 1, 1))
    sac = make(env, updates_per_step=0.25, batch=30, steps_per_iteration=8, learning_starts=1)
    assert sac.rows_per_task == 10
    assert sac.frames_per_iteration == 24
    assert sac.iterate(env)["updates"] == 2


def test_metrics_are_finite_scalars_of_stable_names() -> None:
    env = PointMass((3, 2))
    sac = make(env)
    first, second = sac.iterate(env), sac.iterate(env)
    assert first.keys() == second.keys()
    for name, value in second.items():
        assert value.shape == () and value.isfinite(), name
    assert {"loss/critic", "loss/actor", "policy/entropy", "per_task/goal-1/alpha"} <= second.keys()
    assert first["loss/critic"] != second["loss/critic"]  # not one buffer handed out twice


def test_acting_without_noise_repeats_and_stays_in_bounds() -> None:
    env = PointMass((4, 4))
    sac = make(env)
    obs = 100 * env.obs
    mean = sac.act(obs, env.task, explore=False)
    assert (mean == sac.act(obs, env.task, explore=False)).all()
    noisy = sac.act(obs, env.task, explore=True)
    assert (noisy != mean).any() and noisy.abs().max() <= 1 and mean.abs().max() <= 1


@pytest.mark.parametrize("method", ["mean", "pcgrad", "famo"])
@pytest.mark.parametrize("name", SMALL_NETS)
def test_networks_and_gradient_methods_combine(name: str, method: str) -> None:
    run_two(net=SMALL_NETS[name], grads=GRADS[method][0](apply_to="both"))


def test_bfloat16_trains() -> None:
    run_two(bf16=True)


def run_two(**settings: Any) -> None:
    env = PointMass((3, 2, 2))
    sac = make(env, steps_per_iteration=4, learning_starts=2, **settings)
    before = [p.clone() for learner in sac.learners.values() for p in learner.net.parameters()]
    for _ in range(2):
        metrics = sac.iterate(env)
    after = [p for learner in sac.learners.values() for p in learner.net.parameters()]
    assert all(value.isfinite() for value in metrics.values())
    moved = [(old != new).any().item() for old, new in zip(before, after, strict=True)]
    assert sum(moved) > len(moved) / 2


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("method", ["mean", "pcgrad", "famo"])
def test_point_mass_is_solved_by_captured_graphs(method: str) -> None:
    env = PointMass((32, 32, 32), device="cuda")
    sac = make(env, **LEARN, steps_per_iteration=32, capacity=50_000, grads=GRADS[method][0](apply_to="both"))
    for _ in range(12):
        metrics = sac.iterate(env)
    assert all(value.isfinite() for value in metrics.values())
    assert success_rate(PointMass((64, 64, 64), seed=1, device="cuda"), sac.act).min() > 0.9
