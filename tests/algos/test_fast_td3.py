"""FastTD3 on the point mass: targets and noise by hand, what it learns, and that resuming changes nothing."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch.testing import assert_close
from toy import PointMass, success_rate

from polytask.algos import AlgoContext
from polytask.algos.fast_td3 import ActorRows, FastTD3, FastTD3Config
from polytask.grads import GRADS
from polytask.grads.mean import MeanConfig
from polytask.nets.mlp import MlpConfig, MultiheadConfig
from polytask.nets.moore import MooreConfig
from polytask.nets.simba_v2 import SimbaV2Config
from polytask.types import UserError

SMALL = {"steps_per_iteration": 8, "batch": 48, "learning_starts": 4, "updates_per_step": 1, "capacity": 5000}
LEARN = {"batch": 192, "updates_per_step": 2, "lr": 3e-3, "end_lr": 3e-3, "n_step": 4, "gamma": 0.9}
SMALL_NETS: dict[str, Any] = {
    "mlp": MlpConfig(hidden=[16]),
    "multihead": MultiheadConfig(hidden=[16]),
    "moore": MooreConfig(hidden=[16, 16]),
    "simba_v2": SimbaV2Config(hidden=16),
}


def make(env: PointMass, *, net: Any = None, grads: Any = None, total_frames: int = 10**6, **settings: Any) -> FastTD3:
    """Build a small FastTD3 for the environment."""
    net = net or MlpConfig(hidden=[128, 128], activation="relu")
    context = AlgoContext(env.spec, env.device, net=net, grads=grads or MeanConfig(), total_frames=total_frames)
    return FastTD3(FastTD3Config(**{**SMALL, **settings}), context)


def test_point_mass_is_solved() -> None:
    env = PointMass((32, 32, 32))
    td3 = make(env, **LEARN, steps_per_iteration=32, capacity=50_000)
    for _ in range(6):
        metrics = td3.iterate(env)
    assert success_rate(PointMass((64, 64, 64), seed=1), td3.act).min() > 0.9
    assert metrics["value/at_bounds"] < 0.01  # the grid holds the returns of all three scales of reward


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
        td3._targets(batch).flatten(0, 1),
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
    td3._targets(batch)
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
    assert_close(td3._actor_loss(td3.policy, ActorRows(obs, task)), -torch.minimum(*values))


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
    td3.policy.net.head.linear.weight.data.zero_()  # the policy stands still
    td3.steps = 1  # past the random steps
    td3.iterate(env)
    still = td3.act(env.obs, env.task, explore=False)
    unit = (td3.experience.replay.ring.action[0] - still) / td3.noise_std
    assert unit.std().item() == pytest.approx(1.0, abs=0.1)
    assert td3.noise_std.std() > 0.03


@pytest.mark.parametrize("method", ["mean", "pcgrad", "famo"])
def test_resumed_run_equals_an_unbroken_one_bit_for_bit(method: str) -> None:
    def build(seed: int) -> tuple[PointMass, FastTD3]:
        env = PointMass((5, 4, 3), seed=seed)
        # Twenty steps are kept, so that the ring has been gone round by the end.
        return env, make(env, grads=GRADS[method][0](apply_to="both"), capacity=12 * 20, end_lr=1e-5, total_frames=500)

    env, td3 = build(0)
    td3.iterate(env)
    file = io.BytesIO()
    torch.save({"algo": td3.state_dict(), "env": env.state_dict()}, file)
    for _ in range(3):
        td3.iterate(env)

    file.seek(0)
    saved = torch.load(file, weights_only=True)
    other_env, other = build(5)
    other.load_state_dict(saved["algo"])
    other_env.load_state_dict(saved["env"])
    for _ in range(3):
        other.iterate(other_env)
    assert_close(flat(other.state_dict()), flat(td3.state_dict()), rtol=0, atol=0)


def flat(state: Any, prefix: str = "") -> dict[str, Any]:
    """Name every leaf of a nested state by its path."""
    if not isinstance(state, dict):
        return {prefix: torch.as_tensor(state)}
    return {name: leaf for key, value in state.items() for name, leaf in flat(value, f"{prefix}/{key}").items()}


def test_run_resumed_without_its_replay_fills_it_before_it_learns() -> None:
    env = PointMass((5, 4, 3))
    td3 = make(env, save_replay=False, learning_starts=12)
    for _ in range(3):
        td3.iterate(env)
    state = td3.state_dict()
    assert "replay" not in state["experience"]
    other = make(env, save_replay=False, learning_starts=12)
    other.load_state_dict(state)
    assert other.iterate(env)["updates"] == 0
    assert other.iterate(env)["updates"] == 5  # steps 12 to 16


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


def test_metrics_are_finite_scalars_of_stable_names() -> None:
    env = PointMass((3, 2))
    td3 = make(env)
    first, second = td3.iterate(env), td3.iterate(env)
    assert first.keys() == second.keys()
    for name, value in second.items():
        assert value.shape == () and value.isfinite(), name
    assert {"loss/critic", "loss/actor", "value/at_bounds", "per_task/goal-1/reward_scale"} <= second.keys()
    assert first["loss/critic"] != second["loss/critic"]  # not one buffer handed out twice


def test_acting_without_noise_repeats_and_stays_in_bounds() -> None:
    env = PointMass((4, 4))
    td3 = make(env)
    obs = 100 * env.obs
    mean = td3.act(obs, env.task, explore=False)
    assert (mean == td3.act(obs, env.task, explore=False)).all()
    noisy = td3.act(obs, env.task, explore=True)
    assert (noisy != mean).any() and noisy.abs().max() <= 1 and mean.abs().max() <= 1


@pytest.mark.parametrize("method", ["mean", "pcgrad", "famo"])
@pytest.mark.parametrize("name", SMALL_NETS)
def test_networks_and_gradient_methods_combine(name: str, method: str) -> None:
    run_two(net=SMALL_NETS[name], grads=GRADS[method][0](apply_to="both"))


def test_bfloat16_trains() -> None:
    run_two(bf16=True)


def run_two(**settings: Any) -> None:
    env = PointMass((3, 2, 2))
    td3 = make(env, steps_per_iteration=4, learning_starts=2, atoms=11, **settings)
    before = [p.clone() for learner in td3.learners.values() for p in learner.net.parameters()]
    for _ in range(2):
        metrics = td3.iterate(env)
    after = [p for learner in td3.learners.values() for p in learner.net.parameters()]
    assert all(value.isfinite() for value in metrics.values())
    moved = [(old != new).any().item() for old, new in zip(before, after, strict=True)]
    assert sum(moved) > len(moved) / 2


def test_bad_settings_are_named() -> None:
    env = PointMass((2, 2))
    with pytest.raises(UserError, match="min_value < max_value"):
        make(env, min_value=10.0)
    with pytest.raises(UserError, match="updates_per_step"):
        make(env, updates_per_step=-1.0)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("method", ["mean", "pcgrad", "famo"])
def test_point_mass_is_solved_by_captured_graphs(method: str) -> None:
    env = PointMass((32, 32, 32), device="cuda")
    td3 = make(env, **LEARN, steps_per_iteration=32, capacity=50_000, grads=GRADS[method][0](apply_to="both"))
    for _ in range(12):
        metrics = td3.iterate(env)
    assert all(value.isfinite() for value in metrics.values())
    assert success_rate(PointMass((64, 64, 64), seed=1, device="cuda"), td3.act).min() > 0.9
