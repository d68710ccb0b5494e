"""MultiTaskEnv: layout, episodes, resets, metrics and diverged worlds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import polytask
from polytask.config.schema import EvalConfig
from polytask.envs.manipulation import tasks as manipulation
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.render import Renderer
from polytask.envs.scripted import ScriptedPolicy
from polytask.envs.suites import SUITES
from polytask.envs.tasks import TASKS
from polytask.errors import UserError
from polytask.runs.setup import build_env


def make(*tasks: str, **options: object) -> MultiTaskEnv:
    return polytask.make(tasks=tasks, threads=1, **options)


def actions(env: MultiTaskEnv, seed: int = 0) -> torch.Tensor:
    return torch.rand(env.spec.num_envs, 4, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def test_worlds_are_sorted_by_task_and_the_first_tasks_get_the_remainder() -> None:
    env = make("reach", "push", "drawer-open", num_envs=8)
    assert env.spec.envs_per_task == (3, 3, 2)
    assert env.task.tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    assert env.obs.shape == (8, 39)


def test_consecutive_tasks_of_one_scene_share_a_batch() -> None:
    env = polytask.make("mt10", num_envs=20, threads=1)
    names = [[worlds.task.name for worlds in group.tasks] for group in env.groups]
    assert names == [
        ["reach", "push", "pick-place"],
        ["door-open"],
        ["drawer-open", "drawer-close"],
        ["button-press-topdown"],
        ["peg-insert-side"],
        ["window-open", "window-close"],
    ]


def test_observation_holds_the_frame_the_previous_frame_and_the_goal() -> None:
    env = make("reach", num_envs=3, stagger=False)
    first = env.obs.clone()
    assert torch.equal(first[:, :18], first[:, 18:36])
    step = env.step(actions(env))
    assert torch.equal(step.obs[:, 18:36], first[:, :18])
    assert torch.equal(step.obs[:, 36:], env.groups[0].tasks[0].state.target)


def test_episode_ends_as_truncated_and_keeps_its_final_observation() -> None:
    env = make("reach", num_envs=2, stagger=False, episode_length=3)
    goal = env.obs[:, 36:].clone()
    for _ in range(2):
        step = env.step(actions(env))
        assert not step.truncated.any()
        assert torch.equal(step.obs, step.next_obs)
    before = step.obs.clone()
    step = env.step(actions(env))
    assert step.truncated.all()
    assert not step.terminated.any()
    assert torch.equal(step.next_obs[:, 18:36], before[:, :18])  # the final observation belongs to the old episode
    assert torch.equal(step.next_obs[:, 36:], goal)
    assert not torch.equal(step.obs[:, 36:], goal)  # the next observation belongs to the new one
    assert torch.equal(step.obs[:, :18], step.obs[:, 18:36])


def test_exempted_tasks_start_at_their_first_step() -> None:
    # Rows of the buffers are in another order than the worlds: reach and push share a scene.
    options = {"num_envs": 60, "episode_length": 20}
    env = make("reach", "drawer-open", "push", exempted_tasks=["drawer-open"], **options)
    ends = torch.stack([env.step(actions(env)).truncated.clone() for _ in range(20)])  # (T, N)
    is_exempted = env.task == 1
    assert not ends[:-1, is_exempted].any()
    assert ends[-1, is_exempted].all()
    assert ends[:-1, ~is_exempted].any(0).float().mean() > 0.5
    assert (env.pop_metrics()["episodes"][1], env.spec.envs_per_task[1]) == (20, 20)
    others = make("reach", "drawer-open", "push", **options)
    again = torch.stack([others.step(actions(others)).truncated.clone() for _ in range(20)])
    assert torch.equal(ends[:, ~is_exempted], again[:, ~is_exempted])  # the exemption draws no number less


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"exempted_tasks": ["push"]}, "unknown exempted task 'push'"),
        ({"exempted_tasks": ["reach"], "stagger": False}, "exempted_tasks applies only with stagger=true"),
    ],
)
def test_an_exemption_that_does_nothing_is_refused(options: dict[str, object], line: str) -> None:
    with pytest.raises(UserError, match=line):
        make("reach", num_envs=2, **options)


def test_staggered_worlds_end_at_different_steps_and_shortened_episodes_are_not_counted() -> None:
    env = make("reach", num_envs=40, episode_length=20)
    ends = torch.stack([env.step(actions(env)).truncated.clone() for _ in range(20)])
    assert (ends.sum(0) == 1).all()
    assert (ends.any(1)).sum() > 10
    counted = env.pop_metrics()["episodes"].item()
    assert counted == ends[-1].sum().item()  # only the worlds that started at step 0
    for _ in range(20):
        env.step(actions(env))
    metrics = env.pop_metrics()
    assert metrics["episodes"].item() == 40
    assert metrics["length"].item() == 40 * 20


def test_metrics_are_sums_over_ended_episodes() -> None:
    env = make("reach", "drawer-close", num_envs=4, stagger=False, episode_length=100)
    policy, total, ever, step = ScriptedPolicy(env), torch.zeros(4), torch.zeros(4, dtype=torch.bool), None
    for _ in range(100):
        step = env.step(policy(env.obs, env.task))
        total += step.reward
        ever |= step.success
    metrics = env.pop_metrics()
    assert metrics["episodes"].tolist() == [2, 2]
    torch.testing.assert_close(metrics["return"], total.view(2, 2).sum(1))
    assert metrics["success"].tolist() == ever.view(2, 2).sum(1).tolist()
    assert step is not None
    assert metrics["success_at_end"].tolist() == step.success.view(2, 2).sum(1).tolist()
    assert env.pop_metrics()["episodes"].tolist() == [0, 0]


def test_goals_are_redrawn_each_episode_unless_fixed() -> None:
    for goals, same in (("random", False), ("fixed", True)):
        env = make("reach", num_envs=4, stagger=False, episode_length=2, goals=goals)
        first = env.obs[:, 36:].clone()
        env.step(actions(env))
        env.step(actions(env))
        assert torch.equal(env.obs[:, 36:], first) is same
        assert len({tuple(row) for row in first.tolist()}) == 4


def test_sparse_reward_is_success() -> None:
    env = make("reach", num_envs=8, stagger=False, reward="sparse")
    policy = ScriptedPolicy(env)
    for _ in range(80):
        step = env.step(policy(env.obs, env.task))
        assert torch.equal(step.reward, step.success.float())
    assert step.reward.sum() > 0


def test_scale_of_the_reward_leaves_successful_steps_alone() -> None:
    plain, scaled = (polytask.make(tasks=["reach"], num_envs=8, threads=1, reward_scale=scale) for scale in (1.0, 0.01))
    policy, successes = ScriptedPolicy(plain), 0
    for _ in range(100):
        action = policy(plain.obs, plain.task)
        step, other = plain.step(action), scaled.step(action)
        assert_close(other.reward, torch.where(step.success, step.reward, 0.01 * step.reward))
        successes += int(step.success.sum())
    assert successes > 0


def test_a_success_may_end_the_episode() -> None:
    options = {"tasks": ["reach"], "num_envs": 8, "threads": 1, "episode_length": 100, "stagger": False}
    env = polytask.make(**options, termination_on_success=True)
    policy, ends = ScriptedPolicy(env), 0
    for _ in range(150):
        step = env.step(policy(env.obs, env.task))
        assert_close(step.terminated, step.success)
        assert not (step.truncated & step.terminated).any()
        ended = step.terminated
        ends += int(ended.sum())
        assert not torch.equal(step.obs[ended], step.next_obs[ended]) or not ended.any()  # a new episode has begun
        assert_close(step.obs[~ended], step.next_obs[~ended])
    metrics = env.pop_metrics()
    assert metrics["success"].item() == metrics["episodes"].item() == ends > 8  # some worlds succeeded twice
    with pytest.raises(UserError, match="termination_on_success=true does not apply to tasks of parkour"):
        polytask.make(tasks=["flat"], termination_on_success=True)


def test_actions_outside_the_range_are_clipped() -> None:
    inside, outside = (make("reach", num_envs=2, seed=3) for _ in range(2))
    a, b = inside.step(torch.ones(2, 4)), outside.step(torch.full((2, 4), 7.0))
    assert torch.equal(a.obs, b.obs)
    assert torch.equal(a.reward, b.reward)


@pytest.mark.parametrize("name", sorted(manipulation.TASKS))
def test_every_task_resets_inside_its_ranges(name: str) -> None:
    start = manipulation.TASKS[name].start
    env = make(name, num_envs=64, episode_length=1, stagger=False)
    vectors = []
    for _ in range(5):
        vectors.append(env.groups[0].tasks[0].state.vector.clone())
        assert torch.isfinite(env.obs).all()
        step = env.step(torch.zeros(64, 4))
        assert torch.isfinite(step.reward).all()
    drawn = torch.cat(vectors)
    low, high = torch.tensor(start.low), torch.tensor(start.high)
    assert (drawn >= low - 1e-6).all()
    assert (drawn <= high + 1e-6).all()
    # Uniform: the mean of 320 draws is within five standard errors of the mean of a plain rejection sampler.
    plain = low + (high - low) * torch.rand(20_000, len(low), generator=torch.Generator().manual_seed(0))
    if start.separation is not None:
        a, b = (plain[:, slice(*part)] for part in (start.separation.a, start.separation.b))
        plain = plain[(a - b).norm(dim=-1) >= start.separation.distance]
    assert ((drawn.mean(0) - plain.mean(0)).abs() <= 5 * plain.std(0) / 320**0.5 + 1e-6).all()
    if start.separation is not None:
        a, b = (drawn[:, slice(*part)] for part in (start.separation.a, start.separation.b))
        assert ((a - b).norm(dim=-1) >= start.separation.distance - 1e-6).all()


def test_same_seed_same_run_and_another_seed_another_run() -> None:
    envs = [
        polytask.make("mt10", num_envs=20, seed=seed, threads=threads) for seed, threads in ((5, 1), (5, 2), (6, 1))
    ]
    for _ in range(5):
        first, second, third = (env.step(actions(env)).obs for env in envs)
        assert torch.equal(first, second)  # for any number of threads
    assert not torch.equal(first, third)


def test_state_dict_continues_bit_for_bit() -> None:
    env = make("push", "peg-insert-side", num_envs=6, episode_length=12)
    for i in range(7):
        env.step(actions(env, i))
    saved = env.state_dict()
    expected = [env.step(actions(env, i)).obs.clone() for i in range(20)]
    other = make("push", "peg-insert-side", num_envs=6, episode_length=12, seed=99)
    other.load_state_dict(saved)
    for i, obs in enumerate(expected):
        assert torch.equal(other.step(actions(other, i)).obs, obs)


@pytest.mark.parametrize("sim", ["cpu", "warp"])
def test_a_diverged_world_is_truncated_counted_and_never_seen(sim: str) -> None:
    env = make("push", num_envs=4, stagger=False, sim=sim)
    before = env.step(actions(env)).obs.clone()
    batch = env.groups[0].batch
    broken = batch.qvel.clone()
    broken[2] = torch.nan
    batch.reset(torch.tensor([False, False, True, False]), batch.qpos.clone(), broken)
    step = env.step(actions(env))
    assert step.truncated.tolist() == [False, False, True, False]
    assert torch.isfinite(step.obs).all()
    assert torch.isfinite(step.next_obs).all()
    assert torch.isfinite(step.reward).all()
    assert torch.equal(step.next_obs[2], before[2])
    assert step.reward[2] == 0
    assert env.pop_metrics()["diverged"].tolist() == [1]
    for _ in range(5):
        step = env.step(actions(env))
    assert torch.isfinite(step.obs).all()
    assert not step.truncated.any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": ["reech"]}, "did you mean 'reach'"),
        ({"suite": "mt11"}, "suite=mt11 is not valid"),
        ({"tasks": []}, "tasks is empty; give at least one entry"),
        ({"tasks": ["reach", "reach"]}, "named twice"),
        ({"tasks": ["reach"], "envs_per_task": [1, 2]}, "2 entries for 1 task"),
        ({"tasks": ["reach"], "envs_per_task": [0]}, "envs_per_task=0 is not valid; it must be at least 1"),
        ({"tasks": ["reach"], "envs_per_task": [4], "num_envs": 4}, "give only one of them"),
        ({"suite": "mt10", "num_envs": 3}, "too few for 10 tasks"),
        ({"tasks": ["reach"], "device": "tpu"}, "unknown device"),
        ({"tasks": ["reach"], "device": "cuda:7"}, "does not exist"),
        ({"tasks": ["reach"], "sim": "isaac"}, "unknown sim"),
        ({"tasks": ["reach"], "robot": "baxter"}, "robot=baxter is not valid"),
        ({"tasks": ["reach"], "reward": "curved"}, "reward=curved is not valid"),
        ({"tasks": ["reach"], "goals": "some"}, "goals=some is not valid"),
        ({"tasks": ["reach"], "episode_length": 0}, "at least 1"),
        ({"tasks": ["reach"], "threads": 0}, "at least 1"),
        ({"tasks": ["reach", "beam"]}, "'reach' is manipulation and 'beam' is parkour"),
        ({"tasks": ["beam"], "levels": "medium"}, "levels=medium is not valid"),
    ],
)
def test_a_mistake_gets_one_line_that_says_what_is_valid(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        polytask.make(**options)
    assert "\n" not in str(caught.value)


def test_suites_name_existing_tasks() -> None:
    assert {name for suite in SUITES.values() for name in suite} <= set(TASKS)
    assert [len(SUITES[name]) for name in ("mt10", "mt25", "mt50", "ml10-train", "ml10-test", "ml45-train")] == [
        10,
        25,
        50,
        10,
        5,
        45,
    ]


def test_steps_can_be_kept_by_default() -> None:
    env = make("reach", num_envs=2, stagger=False)
    first = env.reset()
    seen = [env.step(torch.ones(2, 4)) for _ in range(3)]
    hands = [first[0, 2], *(step.obs[0, 2] for step in seen)]
    assert len({float(hand) for hand in hands}) == 4  # the hand rises in every step
    assert float(seen[0].next_obs[0, 2]) == float(hands[1])
    assert len({float(step.reward[0]) for step in seen}) == 3


def test_without_copies_the_buffers_are_reused() -> None:
    env = make("reach", num_envs=2, stagger=False, copy=False)
    first = env.reset()
    step = env.step(torch.ones(2, 4))
    assert step.obs is first is env.obs
    assert env.step(torch.ones(2, 4)) is step


def test_learners_get_the_buffers() -> None:
    env = build_env(EvalConfig(tasks=["reach"], threads=1), num_envs=2)
    assert env.step(torch.zeros(2, 4)).obs is env.obs


def test_a_masked_reset_is_counted_as_a_new_episode() -> None:
    env = make("reach", num_envs=2, stagger=False, episode_length=4)
    for _ in range(3):
        env.step(torch.zeros(2, 4))
    env.reset(torch.tensor([True, False]))
    assert env.step(torch.zeros(2, 4)).truncated.tolist() == [False, True]
    for _ in range(3):
        step = env.step(torch.zeros(2, 4))
    assert step.truncated.tolist() == [True, False]
    metrics = env.pop_metrics()
    assert (metrics["episodes"].item(), metrics["length"].item()) == (2, 8)


def test_a_closed_environment_says_so() -> None:
    with make("reach", num_envs=2) as env:
        env.step(torch.zeros(2, 4))
    for use in (env.reset, env.render, lambda: env.step(torch.zeros(2, 4))):
        with pytest.raises(UserError, match="this environment is closed; make a new one"):
            use()


def test_worlds_are_described_and_drawn() -> None:
    with make("reach", "drawer-open", num_envs=4, stagger=False) as env:
        assert env.num_envs == 4
        assert env.observation_space.contains(env.obs[0].numpy())
        assert env.action_space.shape == (4,)
        reach, last = env.render(0, 64, 48), env.render(-1, 64, 48)
        assert reach.shape == (48, 64, 3)
        renderer = Renderer(env, "drawer-open", 64, 48)
        assert np.array_equal(last, renderer.frame(1))
        assert not np.array_equal(last, reach)
        renderer.close()
