"""FastTD3 on the point mass: targets, noise and schedules computed by hand, and learning."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.learning import METHODS, assert_solves, context_of, depends_on
from helpers.toy import PointMass
from torch.testing import assert_close

from polytask import algos
from polytask.algos.fast_td3 import FastTD3, FastTD3Config, TD3ActorRows
from polytask.errors import UserError
from polytask.grads import GRADS
from polytask.nets.mlp import MlpConfig

SMALL = {"steps_per_iteration": 8, "batch": 48, "learning_starts": 4, "updates_per_step": 1, "capacity": 5000}
LEARN = {"batch": 192, "updates_per_step": 2, "lr": 3e-3, "end_lr": 3e-3, "n_step": 4, "gamma": 0.9}


def make(env: PointMass, *, grads: Any = None, total_frames: int = 10**6, **settings: Any) -> FastTD3:
    """Build a small FastTD3 for the environment."""
    context = context_of(env, MlpConfig(hidden=[128, 128], activation="relu"), grads, total_frames)
    algo = algos.build(FastTD3Config(**{**SMALL, **settings}), context)
    assert isinstance(algo, FastTD3)
    return algo


def test_point_mass_is_solved() -> None:
    env = PointMass((32, 32, 32))
    metrics = assert_solves(make(env, **LEARN, steps_per_iteration=32, capacity=50_000), env, iterations=6)
    assert metrics["value/at_bounds"] < 0.01  # the grid contains the returns of all three reward scales


def test_without_exploration_the_action_is_the_squashed_output() -> None:
    env = PointMass((3, 2))
    td3 = make(env)
    td3.iterate(env)
    output = td3.policy.net(td3.experience.obs_norm.normalize(env.obs, env.task), env.task)
    assert_close(td3.act(env.obs, env.task, explore=False), output.tanh().detach())


def test_targets_come_from_the_less_hopeful_critic_row_by_row() -> None:
    env = PointMass((3, 2))
    td3 = make(env, atoms=5, min_value=-2.0, max_value=2.0, target_noise=0.0)
    td3.iterate(env)
    batch = td3.experience.sample(2, torch.Generator().manual_seed(0))
    batch = batch._replace(reward=torch.tensor([[0.5, 0.5], [0.0, 1.0]]), discount=torch.tensor([[1.0, 1], [1, 0]]))
    # Means of the first critic: 0, 0, 1, 1; of the second: -1, 1, 0, 0.
    first = torch.tensor([[0.0, 0, 1, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 1, 0]])
    second = torch.tensor([[0.0, 1, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0.5, 0, 0.5, 0], [0, 0, 1, 0, 0]])
    td3.target = lambda obs, action, task: torch.stack([first, second]).log()
    assert_close(
        td3._targets(batch, torch.zeros_like(batch.action)).flatten(0, 1),
        torch.tensor([
            [0.0, 0.5, 0.5, 0.0, 0.0],  # the second's -1, shifted by a half
            [0.0, 0.0, 0.5, 0.5, 0.0],  # the first's 0, shifted by a half
            [0.0, 0.5, 0.0, 0.5, 0.0],  # the second's whole distribution, not only its mean
            [0.0, 0.0, 0.0, 1.0, 0.0],  # terminated: the reward alone
        ]),
    )  # fmt: skip


def test_targets_are_taken_at_the_policys_actions_with_bounded_noise() -> None:
    env = PointMass((3, 2))
    td3 = make(env, target_noise=100.0, target_noise_clip=0.1)
    td3.iterate(env)
    batch = td3.experience.sample(50, torch.Generator().manual_seed(0))
    seen: list[torch.Tensor] = []
    target = td3.target

    def spy(obs: torch.Tensor, action: torch.Tensor, task: torch.Tensor) -> torch.Tensor:
        seen.append(action)
        return target(obs, action, task)

    td3.target = spy
    td3._targets(batch, torch.randn(batch.action.shape, generator=torch.Generator().manual_seed(1)))
    action = td3.policy(batch.next_obs.flatten(0, 1), batch.task.flatten()).detach()
    offset = seen[0] - action
    assert offset.abs().max() <= 0.1 + 1e-6 and offset.abs().median() > 0.099
    assert seen[0].abs().max() <= 1


def test_actor_climbs_the_smaller_mean_value() -> None:
    env = PointMass((3, 2))
    td3 = make(env)
    td3.iterate(env)
    obs, task = torch.randn(6, 3), torch.zeros(6, dtype=torch.int64)
    logits = td3.critic(obs, td3.policy(obs, task), task)
    values = logits.softmax(-1) @ torch.linspace(-10, 10, 101)
    loss = td3._actor_loss(td3.policy, TD3ActorRows(obs, task))
    assert_close(loss, -torch.minimum(*values))
    assert not any(depends_on(loss, parameter) for parameter in td3.critic.parameters())  # compiled, this costs time


def test_mean_of_the_twins_serves_targets_and_actor() -> None:
    env = PointMass((3, 2))
    td3 = make(env, twin="mean", atoms=5, min_value=-2.0, max_value=2.0, target_noise=0.0)
    td3.iterate(env)
    batch = td3.experience.sample(1, torch.Generator().manual_seed(0))
    batch = batch._replace(reward=torch.zeros(2, 1), discount=torch.ones(2, 1))
    both = torch.tensor([[[0.0, 0, 1, 0, 0]] * 2, [[0.0, 0, 0, 0, 1]] * 2])  # returns 0 and 2
    td3.target = td3.frozen_critic = lambda obs, action, task: both.log()
    mixture = torch.tensor([0.0, 0.0, 0.5, 0.0, 0.5])
    assert_close(td3._targets(batch, torch.zeros_like(batch.action)), mixture.expand(2, 1, 5))
    loss = td3._actor_loss(td3.policy, TD3ActorRows(torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64)))
    assert_close(loss, torch.tensor([-1.0, -1.0]))


def test_actor_moves_every_second_update_from_the_first() -> None:
    env = PointMass((3, 2))
    td3 = make(env, steps_per_iteration=1, learning_starts=1, policy_delay=2)
    moved = []
    for _ in range(4):
        before = [p.clone() for p in td3.policy.parameters()]
        critic = [p.clone() for p in td3.critic.parameters()]
        td3.iterate(env)
        moved.append(any((old != new).any() for old, new in zip(before, td3.policy.parameters(), strict=True)))
        assert any((old != new).any() for old, new in zip(critic, td3.critic.parameters(), strict=True))
    assert moved == [True, False, True, False]


def test_target_critics_move_by_their_share_of_the_way() -> None:
    env = PointMass((3, 2))
    td3 = make(env, tau=0.25, learning_starts=9)
    td3.iterate(env)  # no update yet
    before = [p.clone() for p in td3.target.parameters()]
    td3._update_once(moves_actor=False)
    critic = list(td3.critic.parameters())
    assert any((old != new).any() for old, new in zip(before, critic, strict=True))
    expected = [0.75 * old + 0.25 * new.detach() for old, new in zip(before, critic, strict=True)]
    assert_close(list(td3.target.parameters()), expected)


def test_rewards_are_scaled_so_that_returns_stay_on_the_grid() -> None:
    td3 = make(PointMass((3, 2)), min_value=-4.0, max_value=9.0, gamma=0.5)
    norm = td3.experience.reward_norm
    norm.update(torch.tensor([8.0, 0, 0, 0, 0]), torch.zeros(5, dtype=torch.bool))
    norm.spread.variance.zero_()  # so that only the largest return counts
    assert_close(
        norm.scale(), torch.tensor([2.0, 1.0])
    )  # a return of 8 becomes 4, as one of -8 does; the second task has none


def test_worlds_keep_their_noise_for_an_episode_and_draw_it_anew_after() -> None:
    env = PointMass((20, 20))
    td3 = make(env, steps_per_iteration=1, learning_starts=1, min_noise=0.1, max_noise=0.3)
    history, ended = [], []
    for _ in range(32):
        td3.iterate(env)
        history.append(td3.noise_std.squeeze(-1).clone())
        ended.append(td3.experience.stage.done.clone())
    for before, after, done in zip(history, history[1:], ended, strict=False):
        assert ((before != after) == done).all()
    assert torch.stack(ended[:-1]).any(dim=0).all()  # every world has drawn at least twice
    drawn = torch.stack(history)
    assert drawn.min() >= 0.1 and drawn.max() <= 0.3
    assert drawn.mean().item() == pytest.approx(0.2, abs=0.02)


def test_exploration_adds_each_worlds_own_noise() -> None:
    env = PointMass((200, 200))
    td3 = make(env, steps_per_iteration=1, learning_starts=1, min_noise=0.0, max_noise=0.2, lr=0.0, end_lr=0.0)
    td3.policy.net.head.linear.weight.data.zero_()  # the policy is constant
    td3.loop.steps = 1  # after the random steps
    td3.iterate(env)
    still = td3.act(env.obs, env.task, explore=False)
    unit = (td3.experience.replay.ring.action[0] - still) / td3.noise_std
    assert unit.std().item() == pytest.approx(1.0, abs=0.1)
    assert td3.noise_std.std() > 0.03


def test_noise_never_leaves_the_range_of_actions() -> None:
    env = PointMass((200, 200))
    action = make(env, min_noise=2.0, max_noise=2.0).act(env.obs, env.task, explore=True)
    assert action.min() == -1.0 and action.max() == 1.0


def test_cosine_ends_at_the_last_frame() -> None:
    env = PointMass((2, 2))
    td3 = make(env, lr=1e-3, end_lr=1e-4, total_frames=4 * 8 * 4)
    rates = []
    for _ in range(6):
        td3.iterate(env)
        rates.append(td3.learners["actor"].optimizer.param_groups[0]["lr"].item())
    half = 0.5 * (1e-3 + 1e-4)
    quarter = 0.45e-3 * 2**-0.5  # half the range, times the cosine of 45 degrees
    assert rates == pytest.approx([1e-3, half + quarter, half, half - quarter, 1e-4, 1e-4])


def test_weight_decay_shrinks_weights_by_rate_times_decay() -> None:
    env = PointMass((2, 2))
    td3 = make(env, lr=0.01, weight_decay=0.5)
    critic = td3.learners["critic"]
    before = [p.detach().clone() for p in critic.net.parameters()]
    for parameter in critic.net.parameters():
        parameter.grad = torch.zeros_like(parameter)
    critic.optimizer.step()
    assert_close([p.detach() for p in critic.net.parameters()], [(1 - 0.01 * 0.5) * p for p in before])


def test_bad_settings_are_named() -> None:
    env = PointMass((2, 2))
    with pytest.raises(UserError, match=r"algo.policy_delay=0 is not valid; it must be at least 1"):
        make(env, policy_delay=0)
    with pytest.raises(UserError, match=r"algo.atoms=1 is not valid; it must be at least 2"):
        make(env, atoms=1)
    with pytest.raises(UserError, match=r"algo.min_value=10.0 is not valid; it must be below algo.max_value=10.0"):
        make(env, min_value=10.0)


@pytest.mark.gpu
@pytest.mark.parametrize("method", METHODS)
def test_point_mass_is_solved_by_captured_graphs(method: str) -> None:
    env = PointMass((32, 32, 32), device="cuda")
    td3 = make(env, **LEARN, steps_per_iteration=32, capacity=50_000, grads=GRADS[method][0](apply_to="both"))
    assert_solves(td3, env, iterations=12)
