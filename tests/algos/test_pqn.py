"""PQN on the point mass: levels and values, targets, exploration, learning and resuming."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.learning import METHODS, assert_resumes, assert_solves, assert_trains, context_of
from helpers.toy import PointMass, success_rate
from torch.testing import assert_close

from polytask import algos
from polytask.algos.pqn import PQN, PQNConfig, PQNRows, best, chosen, epsilon_at, levels
from polytask.errors import UserError
from polytask.grads import GRADS
from polytask.grads.pcgrad import PCGrad
from polytask.nets import NETS
from polytask.nets.bro import BroConfig


def make(env: PointMass, *, net: Any = None, grads: Any = None, total_frames: int = 10**6, **settings: Any) -> PQN:
    """Build a small PQN for the environment."""
    context = context_of(env, net or BroConfig(hidden=32, blocks=1), grads, total_frames)
    algo = algos.build(PQNConfig(**{"epochs": 2, "minibatches": 2, "gamma": 0.9, "lr": 3e-3, **settings}), context)
    assert isinstance(algo, PQN)
    return algo


def test_point_mass_is_solved() -> None:
    env = PointMass((32, 32, 32))
    learning = {"epochs": 4, "minibatches": 4, "gamma": 0.8, "epsilon_fraction": 0.5}
    pqn = make(env, net=BroConfig(hidden=64, blocks=1), total_frames=40 * 16 * 96, **learning)
    before = success_rate(PointMass((64, 64, 64), seed=1), pqn.act)
    metrics = assert_solves(pqn, env, iterations=40)
    assert before.min() < 0.5
    assert metrics["value/target"] > 1


def test_levels_are_evenly_spaced() -> None:
    assert levels(torch.arange(3), 3).tolist() == [-1, 0, 1]  # bang, off, bang
    assert levels(torch.arange(2), 2).tolist() == [-1, 1]
    assert levels(torch.arange(5), 5).tolist() == [-1, -0.5, 0, 0.5, 1]


def test_value_is_the_mean_over_actuators() -> None:
    values = torch.tensor([[[1.0, 5.0, 3.0], [2.0, 0.0, -4.0]]])  # one row, two actuators, three levels
    assert best(values).tolist() == [3.5]  # (5 + 2) / 2
    assert chosen(values, torch.tensor([[1.0, -1.0]])).tolist() == [2.5]  # (3 + 2) / 2
    assert chosen(values, torch.tensor([[0.0, 1.0]])).tolist() == [0.5]  # (5 - 4) / 2


@pytest.mark.parametrize("bins", range(2, 12))
def test_an_action_finds_the_entry_that_chose_it(bins: int) -> None:
    choice = torch.randint(bins, (50, 4), generator=torch.Generator().manual_seed(bins))
    values = torch.arange(bins).float().expand(50, 4, bins)
    assert_close(chosen(values, levels(choice, bins)), choice.float().mean(-1))


def test_greedy_action_is_the_best_level_of_each_actuator() -> None:
    env = PointMass((2, 2))
    pqn = make(env)
    pqn.net.forward = lambda obs, task: torch.tensor([[0.0, 1.0, 2.0, 3.0, 2.0, 1.0]]).expand(4, -1)
    assert pqn.act(env.obs, env.task, explore=False).tolist() == [[1.0, -1.0]] * 4


def test_loss_by_hand() -> None:
    rows = PQNRows(torch.zeros(2, 3), torch.zeros(2), torch.tensor([[-1.0, 0.0], [1.0, 1.0]]), torch.tensor([2.0, 0.5]))
    output = torch.tensor([[1.0, 9.0, 9.0, 9.0, 2.0, 9.0], [9.0, 9.0, 3.0, 9.0, 9.0, 4.0]])
    loss = make(PointMass((2,))).learners["critic"].backward.loss(lambda obs, task: output, rows)
    assert_close(loss, torch.tensor([0.5**2, 3.0**2]))  # values (1 + 2) / 2 and (3 + 4) / 2


def test_epsilon_falls_linearly_over_its_fraction_of_the_frames() -> None:
    cfg = PQNConfig(epsilon_fraction=0.2)
    found = [epsilon_at(cfg, progress) for progress in (0.0, 0.05, 0.1, 0.2, 0.9)]
    assert found == pytest.approx([1.0, 0.75125, 0.5025, 0.005, 0.005])
    assert epsilon_at(PQNConfig(epsilon_fraction=0.0), 0.0) == pytest.approx(0.005)

    env = PointMass((2, 2))  # 64 frames per iteration; the schedule lasts for half of 256
    pqn = make(env, epsilon_fraction=0.5, total_frames=256, schedule="linear", lr=1e-3)
    epsilons, rates = [], []
    for _ in range(4):
        epsilons.append(pqn.iterate(env)["policy/epsilon"].item())
        rates.append(pqn.learners["critic"].optimizer.param_groups[0]["lr"].item())
    assert epsilons == pytest.approx([1.0, 0.5025, 0.005, 0.005])
    assert rates == pytest.approx([1e-3, 0.75e-3, 0.5e-3, 0.25e-3])


def test_epsilon_is_the_share_of_worlds_whose_whole_action_is_random() -> None:
    env = PointMass((2000, 2000))
    pqn = make(env)
    greedy = pqn.act(env.obs, env.task, explore=False)
    pqn._epsilon.fill_(0.4)
    noisy = pqn.act(env.obs, env.task, explore=True)
    # Of nine random actions one equals the greedy one; five agree with it in at least one of the two actuators.
    assert (noisy == greedy).all(-1).float().mean().item() == pytest.approx(1 - 0.4 * 8 / 9, abs=0.03)
    assert (noisy == greedy).any(-1).float().mean().item() == pytest.approx(1 - 0.4 * 4 / 9, abs=0.03)
    pqn._epsilon.fill_(0.0)
    assert (pqn.act(env.obs, env.task, explore=True) == greedy).all()


def test_every_action_answers_the_observation_of_its_own_step() -> None:
    env = PointMass((4, 4))
    pqn = make(env, epsilon_start=0.0, epsilon_end=0.0, lr=0.0)
    pqn.iterate(env)
    norm = {name: buffer.clone() for name, buffer in pqn.obs_norm.named_buffers()}
    pqn.iterate(env)
    pqn.obs_norm.load_state_dict(norm)
    for obs, action in zip(pqn.rollout.obs, pqn.rollout.action, strict=True):
        assert (pqn.act(obs, env.task, explore=False) == action).all()
    assert (pqn.rollout.obs[1:] != pqn.rollout.obs[:-1]).any(-1).any(-1).sum() > 10


def test_targets_agree_with_a_loop_over_steps() -> None:
    env = PointMass((2, 3))
    pqn = make(env, horizon=40, lr=0.0)
    pqn.iterate(env)
    norm = {name: buffer.clone() for name, buffer in pqn.obs_norm.named_buffers()}
    pqn.iterate(env)
    rollout = pqn.rollout
    assert rollout.terminated.any() and rollout.truncated.any()

    @torch.no_grad()
    def value(obs: torch.Tensor) -> torch.Tensor:
        seen = (obs - norm["mean"][env.task]) / (norm["variance"][env.task] + 1e-8).sqrt()
        output = pqn.net(seen.clamp(-10, 10).float(), env.task)
        return (output[:, :3].amax(-1) + output[:, 3:].amax(-1)) / 2

    scale, target = pqn.reward_norm.scale()[env.task], torch.zeros(40, 5)
    for t in reversed(range(40)):
        ahead = bootstrap = value(rollout.next_obs[t])
        if t < 39:
            ahead = torch.where(rollout.done[t], bootstrap, 0.5 * bootstrap + 0.5 * target[t + 1])
        target[t] = rollout.reward[t] / scale + 0.9 * torch.where(rollout.terminated[t], 0.0, ahead)
    assert_close(pqn.rows.target.view(40, 5), target, rtol=1e-4, atol=1e-5)


def test_return_statistics_end_with_the_episode_also_at_the_time_limit() -> None:
    env = PointMass((2, 3))
    pqn = make(env, horizon=40)
    pqn.iterate(env)
    rollout, running = pqn.rollout, torch.zeros(5)
    assert rollout.truncated.any()
    for reward, done in zip(rollout.reward, rollout.done, strict=True):
        running = torch.where(done, 0.0, reward + 0.9 * running)
    assert_close(pqn.reward_norm.returns, running)


def test_gradients_and_returns_are_bounded() -> None:
    env = PointMass((2, 3))
    pqn = make(env, max_grad_norm=0.01, return_bound=4.0, gamma=0.5)
    assert pqn.iterate(env)["grad_norm/critic"] > 0.01
    norm = torch.stack([p.grad.norm() for p in pqn.net.parameters()]).norm()
    assert_close(norm, torch.tensor(0.01), rtol=1e-3, atol=0)
    assert pqn.reward_norm.floor == pytest.approx(1 / 4)  # 0.5 to the power of 30 steps is nothing


def test_loss_hardly_depends_on_the_scale_of_rewards() -> None:
    losses = []
    for scale in (1.0, 1000.0):
        env = PointMass((8, 8))
        env.scale = torch.full_like(env.scale, scale)
        pqn = make(env)
        for _ in range(3):
            metrics = pqn.iterate(env)
        losses.append(metrics["loss/value"].item())
    assert losses[1] == pytest.approx(losses[0], rel=0.01)


@pytest.mark.parametrize("method", METHODS)
def test_resumed_run_equals_an_unbroken_one_bit_for_bit(method: str) -> None:
    assert_resumes(lambda env: make(env, grads=GRADS[method][0]()), before=2)


@pytest.mark.parametrize("net", ["mlp", "multihead", "soft_modular"])
@pytest.mark.parametrize("method", METHODS)
def test_networks_and_gradient_methods_train(net: str, method: str) -> None:
    env = PointMass((3, 2, 2))
    assert_trains(make(env, net=NETS[net][0](), grads=GRADS[method][0]()), env)


def test_bfloat16_trains() -> None:
    env = PointMass((3, 2))
    assert all(value.isfinite() for value in make(env, bf16=True).iterate(env).values())


def test_gradient_method_acts_on_the_only_network() -> None:
    grads = GRADS["pcgrad"][0](apply_to="actor")  # which PQN does not have
    assert isinstance(make(PointMass((2, 2)), grads=grads).learners["critic"].backward.method, PCGrad)


def test_bad_settings_are_named() -> None:
    env = PointMass((2, 2))
    with pytest.raises(UserError, match=r"algo.bins=1 is not valid; it must be at least 2"):
        make(env, bins=1)
    with pytest.raises(UserError, match=r"cosine.*constant, linear"):
        make(env, schedule="cosine")


@pytest.mark.gpu
@pytest.mark.parametrize("method", METHODS)
def test_point_mass_is_solved_by_captured_graphs(method: str) -> None:
    env = PointMass((32, 32, 32), device="cuda")
    learning = {"epochs": 4, "minibatches": 4, "gamma": 0.8, "epsilon_fraction": 0.5, "total_frames": 40 * 16 * 96}
    pqn = make(env, net=BroConfig(hidden=64, blocks=1), grads=GRADS[method][0](), **learning)
    assert_solves(pqn, env, iterations=40)
