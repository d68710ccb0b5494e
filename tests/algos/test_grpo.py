"""GRPO on the point mass: learning, comparison of episodes, refused settings and resuming."""

from __future__ import annotations

import math

import pytest
import torch
from helpers import toy
from helpers.grpo import make
from helpers.learning import METHODS, assert_resumes, assert_solves, assert_trains
from helpers.ppo import zeros_of_the_policy
from helpers.toy import PointMass, success_rate
from torch.testing import assert_close

from polytask.algos.grpo import GRPO, GRPORows
from polytask.errors import UserError
from polytask.grads import GRADS
from polytask.grads.pcgrad import PCGrad
from polytask.nets import NETS
from polytask.nets.mlp import MlpConfig
from polytask.types import EnvSpec, Step


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only the time limit end an episode."""
    monkeypatch.setattr(toy, "ARENA", 1e9)


@pytest.mark.parametrize(
    ("advantage", "baseline"), [("reward_to_go", "task"), ("reward_to_go", "time"), ("episodic", "task")]
)
def test_point_mass_is_solved(advantage: str, baseline: str) -> None:
    env = PointMass((32, 32, 32))
    grpo = make(env, minibatch=512, epochs=5, net=MlpConfig(hidden=[64, 64]), advantage=advantage, baseline=baseline)
    before = success_rate(PointMass((64, 64, 64), seed=1), grpo.act)
    first = grpo.iterate(env)
    metrics = assert_solves(grpo, env, iterations=7)
    assert before.min() < 0.5
    assert metrics["rollout/reward"] > 1.5 * first["rollout/reward"]


@pytest.mark.parametrize("method", METHODS)
def test_resumed_run_equals_an_unbroken_one_bit_for_bit(method: str) -> None:
    assert_resumes(lambda env: make(env, grads=GRADS[method][0]()))


def test_a_run_that_imitates_is_resumed_bit_for_bit() -> None:
    assert_resumes(lambda env: make(env, imitation_coef=1.0, imitation_steps=50))


def first_episodes(grpo: GRPO) -> list[list[float]]:
    """Return the rewards of each world's first episode in the rollout."""
    rewards = []
    for world in range(grpo.spec.num_envs):
        ends = grpo.rollout.done[:, world].tolist()
        rewards.append(grpo.rollout.reward[: ends.index(True) + 1, world].tolist())
    return rewards


def standardized(values: torch.Tensor) -> torch.Tensor:
    return (values - values.mean()) / values.std(correction=0)


def test_rewards_to_go_of_first_episodes_are_standardised_per_task() -> None:
    env = PointMass((6, 4))
    grpo = make(env, gamma=0.9, lr=0.0)
    grpo.iterate(env)
    assert grpo.rollout.terminated.any()
    advantage, weight = grpo.rows.advantage.view(30, 10), grpo.rows.weight.view(30, 10)
    episodes = first_episodes(grpo)
    for task in (0, 1):
        worlds = [n for n in range(10) if env.task[n] == task]
        futures = [episodes[n][t:] for n in worlds for t in range(len(episodes[n]))]
        expected = standardized(torch.tensor([sum(r * 0.9**i for i, r in enumerate(future)) for future in futures]))
        counted = torch.cat([advantage[: len(episodes[n]), n] for n in worlds])
        assert_close(counted, expected, rtol=1e-3, atol=1e-4)
        assert_close(weight[:, worlds].mean(), torch.tensor(1.0))
        for n in worlds:  # the second, unfinished episode of the world is ignored
            assert not advantage[len(episodes[n]) :, n].any() and not weight[len(episodes[n]) :, n].any()
            assert (weight[: len(episodes[n]), n] >= 1).all()


def test_episodic_returns_are_standardised_per_task() -> None:
    env = PointMass((6, 4))
    grpo = make(env, advantage="episodic", lr=0.0)
    grpo.iterate(env)
    episodes = first_episodes(grpo)
    totals = torch.tensor([sum(rewards) for rewards in episodes])
    expected = torch.cat([standardized(totals[:6]), standardized(totals[6:])])
    advantage = grpo.rows.advantage.view(30, 10)
    for n, rewards in enumerate(episodes):
        assert_close(advantage[: len(rewards), n], expected[n].expand(len(rewards)), rtol=1e-3, atol=1e-4)
        assert not advantage[len(rewards) :, n].any()


def test_dr_grpo_subtracts_the_mean_and_divides_by_nothing() -> None:
    env = PointMass((6, 4))
    for settings in ({"advantage": "episodic"}, {"gamma": 0.0}):
        grpo = make(env, **settings, standardize=False, lr=0.0)
        grpo.iterate(env)
        episodes = first_episodes(grpo)
        advantage = grpo.rows.advantage.view(30, 10)
        for worlds in (range(6), range(6, 10)):
            # Without discount a score is the reward of the step itself.
            scores = [torch.tensor(episodes[n]) for n in worlds]
            if settings.get("advantage"):
                scores = [rewards.sum().expand(len(rewards)) for rewards in scores]
                mean = torch.stack([score[0] for score in scores]).mean()
            else:
                mean = torch.cat(scores).mean()
            for n, score in zip(worlds, scores, strict=True):
                assert_close(advantage[: len(score), n], score - mean, rtol=1e-4, atol=1e-5)


def test_baseline_by_time_leaves_no_trend(endless: None) -> None:
    env = PointMass((6, 4))
    trends = {}
    for baseline in ("task", "time"):
        grpo = make(env, baseline=baseline, lr=0.0)
        grpo.iterate(env)
        trends[baseline] = grpo.rows.advantage.view(30, 10)[:, :6].mean(dim=1)
    assert trends["task"][0] > 0.5 > -0.5 > trends["task"][-1]  # more reward remains early in an episode
    assert_close(trends["time"], torch.zeros(30), atol=1e-5, rtol=0)


def rows_of(**columns: list[float]) -> GRPORows:
    """Build four rows of one task whose other entries are zero, with weight one."""
    plain = {"log_prob": torch.zeros(4), "advantage": torch.zeros(4), "weight": torch.ones(4)}
    given = {name: torch.tensor(column) for name, column in columns.items()}
    return GRPORows(**{**zeros_of_the_policy(), **plain, **given})


def test_loss_by_hand() -> None:
    density = -math.log(2 * math.pi)  # of the mean, for two unit normals
    ratio = torch.tensor([1.5, 1.5, 0.5, 0.5])
    rows = rows_of(
        log_prob=(density - ratio.log()).tolist(), advantage=[1.0, -1.0, 1.0, -1.0], weight=[1.0, 1.0, 2.0, 0.0]
    )
    surrogate = torch.tensor([-1.2, 1.5, -0.5, 0.8]) - 0.005 * math.log(2 * math.pi * math.e)  # as PPO's
    far = 0.5 - math.log(1.5), -0.5 - math.log(0.5)  # ratio - 1 - log ratio
    divergence = torch.tensor([far[0], far[0], far[1], far[1]])
    for kl_coef in (0.0, 0.3):
        loss = make(PointMass((2,)), kl_coef=kl_coef).learners["actor"].backward.loss
        found, _ = loss(lambda obs, task: (torch.zeros(4, 2), torch.zeros(4, 2)), rows)
        assert_close(found, (surrogate + kl_coef * divergence) * torch.tensor([1.0, 1.0, 2.0, 0.0]))


def test_the_loss_of_a_solved_task_weighs_less() -> None:
    grpo = make(PointMass((2,)), solved_weight=0.25)
    rows = rows_of(advantage=[1.0, -1.0, 2.0, 0.0])
    losses = []
    for success in (0.0, 1.0):
        grpo.actor.success.load_state_dict({"recent_episodes": torch.tensor([[success], [1.0]]).double()})
        grpo.actor.anneal()
        losses.append(grpo.learners["actor"].backward.loss(lambda obs, task: (rows.mean, rows.log_std), rows)[0])
    assert_close(losses[1], 0.25 * losses[0])


def test_divergence_penalty_holds_the_policy_back() -> None:
    moved = []
    for kl_coef in (0.0, 10.0):
        env = PointMass((16, 16))
        moved.append(make(env, kl_coef=kl_coef, epochs=5).iterate(env)["policy/kl"])
    assert moved[1] < 0.5 * moved[0]


class Counting(PointMass):
    """Counts its resets, and can truncate one world early, like a diverged simulation."""

    resets, diverges_at = 0, -1

    def reset(self) -> torch.Tensor:
        self.resets += 1
        return super().reset()

    def step(self, action: torch.Tensor) -> Step:
        step = super().step(action)
        if self.clock[1] == self.diverges_at:
            step.truncated[0], self.clock[0] = True, 0
        return step


def test_worlds_are_reset_only_when_they_are_out_of_step(endless: None) -> None:
    env = Counting((4, 4))
    grpo = make(env)
    env.step(torch.zeros(8, 2))
    env.resets = 0
    for _ in range(3):
        grpo.iterate(env)
    assert env.resets == 1 and not env.clock.any()  # once at the start, after the steps before
    env.diverges_at = 10
    assert grpo.iterate(env)["rollout/counted"] == (8 * 30 - 20) / (8 * 30)
    env.diverges_at = -1
    assert grpo.iterate(env)["rollout/counted"] == 1
    assert env.resets == 2


def test_what_counts_episodes_learns_of_a_reset_between_rollouts(endless: None) -> None:
    env = Counting((4, 4))
    grpo = make(env, imitation_coef=1.0, novelty_coef=0.1)
    memory, novelty, success = grpo.actor.success_memory, grpo.actor.novelty, grpo.actor.success
    assert memory is not None and novelty is not None and success is not None
    seen = []
    env.diverges_at = 10
    grpo.iterate(env)
    grpo.actor.begin = lambda: seen.append(  # type: ignore[method-assign]
        (memory.state_dict()["_last_done"][-1].all(), novelty.state_dict()["is_new"].all(), success._succeeded.any())
    )
    assert not memory.state_dict()["_last_done"][-1, 0]  # the world's second episode, which the reset cuts off
    success._succeeded.fill_(1)
    grpo.iterate(env)
    assert seen == [(True, True, False)]


def test_demonstrations_are_remembered_as_own_successes() -> None:
    grpo = make(PointMass((4, 4)), imitation_coef=1.0, imitation_steps=2)
    obs, action = torch.tensor([[1.0, 2, 3], [4, 5, 6]]), torch.tensor([[0.1, 0.2], [0.3, 0.4]])
    grpo.imitate(torch.tensor([1, 1]), obs, action)
    memory = grpo.actor.success_memory
    assert memory is not None and memory.count.tolist() == [0, 2]
    seen, taken = memory.draw(torch.ones(50, dtype=torch.int64), torch.Generator().manual_seed(0))
    assert {tuple(row.tolist()) for row in torch.cat([seen, taken], 1)} == {
        tuple(row.tolist()) for row in torch.cat([obs, action], 1)
    }


def test_a_diverged_world_does_not_stop_the_first_iteration(endless: None) -> None:
    env = Counting((4, 4))
    env.diverges_at = 10
    assert make(env).iterate(env)["rollout/counted"] == (8 * 30 - 20) / (8 * 30)


class Staggered(PointMass):
    """Starts every world at a different step, also after each reset."""

    def reset(self) -> torch.Tensor:
        super().reset()
        self.clock = torch.arange(self.spec.num_envs) * 7 % self.spec.episode_length
        return self.obs


def test_staggered_episodes_are_refused(endless: None) -> None:
    env = Staggered((8, 8))
    with pytest.raises(UserError, match=r"algo.horizon=30 .* 15 of 16 worlds .*stagger=false"):
        make(env).iterate(env)


def test_episodes_longer_than_promised_are_refused(endless: None) -> None:
    env = PointMass((4, 4))
    grpo = make(env)
    env.spec = EnvSpec(3, 2, env.spec.tasks, (4, 4), episode_length=31)
    with pytest.raises(UserError, match="8 of 8 worlds"):
        grpo.iterate(env)


def test_bad_settings_are_named() -> None:
    env = PointMass((2, 2))
    with pytest.raises(UserError, match=r"algo.horizon is 16.* 30 steps.*episode_length=16.*stagger=false"):
        make(env, horizon=16)
    with pytest.raises(UserError, match=r"algo.advantage=gae .*reward_to_go, episodic"):
        make(env, advantage="gae")
    with pytest.raises(UserError, match=r"algo.baseline=world.*task, time"):
        make(env, baseline="world")
    with pytest.raises(UserError, match=r"at least two, got \(2, 1\)"):
        make(PointMass((2, 1)))
    assert make(env, horizon=30).frames_per_iteration == make(env).frames_per_iteration == 120


def test_gradient_method_acts_on_the_only_network() -> None:
    grads = GRADS["pcgrad"][0]()
    assert grads.apply_to == "critic"  # which GRPO does not have
    assert isinstance(make(PointMass((2, 2)), grads=grads).learners["actor"].backward.method, PCGrad)


@pytest.mark.parametrize("net", ["mlp", "multihead", "soft_modular"])
@pytest.mark.parametrize("method", METHODS)
def test_networks_and_gradient_methods_train(net: str, method: str) -> None:
    env = PointMass((3, 2, 2))
    assert_trains(make(env, net=NETS[net][0](), grads=GRADS[method][0](), epochs=1), env)


def test_linear_schedule_falls_to_zero_with_the_last_frame() -> None:
    env = PointMass((2, 2))
    grpo = make(env, schedule="linear", lr=1e-3, total_frames=2 * 30 * 4)
    rates = []
    for _ in range(3):
        grpo.iterate(env)
        rates.append(grpo.learners["actor"].optimizer.param_groups[0]["lr"].item())
    assert rates == pytest.approx([1e-3, 0.5e-3, 0.0])


@pytest.mark.gpu
@pytest.mark.parametrize("method", METHODS)
def test_point_mass_is_solved_by_captured_graphs(method: str) -> None:
    env = PointMass((32, 32, 32), device="cuda")
    assert_solves(make(env, minibatch=512, epochs=5, grads=GRADS[method][0]()), env, iterations=12)
