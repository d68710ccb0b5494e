"""Worlds are sorted by task outside, whatever the order of the rows inside; CPU and Warp have different orders."""

from __future__ import annotations

import pytest
import torch

import polytask
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.render import pose_of
from polytask.errors import UserError
from polytask.runs.evaluate import goals_of

TASKS = ["reach", "drawer-close", "push", "drawer-open"]  # on Warp, reach and push share a batch
WORLDS = (2, 1, 3, 2)


def make(sim: str, **options: object) -> MultiTaskEnv:
    return polytask.make(
        tasks=TASKS, envs_per_task=WORLDS, sim=sim, threads=1, seed=3, stagger=False, copy=False, **options
    )


@pytest.fixture(scope="module")
def envs() -> tuple[MultiTaskEnv, MultiTaskEnv]:
    return make("cpu"), make("warp")


def test_rows_are_in_the_order_of_the_groups(envs: tuple[MultiTaskEnv, MultiTaskEnv]) -> None:
    cpu, warp = (env._order for env in envs)
    assert cpu.is_sorted
    assert warp.task.tolist() == [0] * 2 + [2] * 3 + [1] + [3] * 2
    assert warp.world is not None
    assert warp.row is not None
    assert warp.world.tolist() == [0, 1, 3, 4, 5, 2, 6, 7]
    assert warp.row.tolist() == [0, 1, 5, 2, 3, 4, 6, 7]


def test_both_simulators_show_the_same_worlds_in_the_same_order(envs: tuple[MultiTaskEnv, MultiTaskEnv]) -> None:
    cpu, warp = envs
    torch.testing.assert_close(cpu.reset(), warp.reset(), atol=1e-6, rtol=0)
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        action = 2.0 * torch.rand(sum(WORLDS), 4, generator=generator) - 1.0
        ours, theirs = cpu.step(action), warp.step(action)
        torch.testing.assert_close(ours.obs, theirs.obs, atol=2e-3, rtol=0)
        torch.testing.assert_close(ours.next_obs, theirs.next_obs, atol=2e-3, rtol=0)
        torch.testing.assert_close(ours.reward, theirs.reward, atol=0.02, rtol=0)
        assert theirs.obs is warp.obs


def test_metrics_belong_to_their_tasks() -> None:
    env = make("warp", episode_length=2)
    env.step(torch.zeros(sum(WORLDS), 4))
    step = env.step(torch.zeros(sum(WORLDS), 4))
    assert bool(step.truncated.all())
    metrics = env.pop_metrics()
    assert metrics["episodes"].tolist() == list(WORLDS)
    returns = make("cpu", episode_length=2)
    for _ in range(2):
        returns.step(torch.zeros(sum(WORLDS), 4))
    torch.testing.assert_close(metrics["return"], returns.pop_metrics()["return"], atol=0.02, rtol=0)


def test_a_saved_state_shows_the_same_observation(envs: tuple[MultiTaskEnv, MultiTaskEnv]) -> None:
    warp = envs[1]
    warp.reset()
    warp.step(torch.ones(sum(WORLDS), 4))
    state, obs = warp.state_dict(), warp.obs.clone()
    warp.step(-torch.ones(sum(WORLDS), 4))
    after = warp.obs.clone()
    warp.load_state_dict(state)
    torch.testing.assert_close(warp.obs, obs, atol=0, rtol=0)
    warp.step(-torch.ones(sum(WORLDS), 4))
    torch.testing.assert_close(warp.obs, after, atol=1e-5, rtol=0)


def test_a_state_of_another_backend_is_refused_with_one_line(envs: tuple[MultiTaskEnv, MultiTaskEnv]) -> None:
    cpu, warp = envs
    for ours, theirs in ((cpu, warp), (warp, cpu)):
        with pytest.raises(UserError, match="saved on another physics backend"):
            ours.load_state_dict(theirs.state_dict())


def test_goals_are_found_by_the_name_of_the_task(envs: tuple[MultiTaskEnv, MultiTaskEnv]) -> None:
    for env in envs:
        env.seed(5)
        env.reset()
    cpu, warp = (goals_of(env.state_dict(), env.spec.tasks) for env in envs)
    assert list(cpu) == list(warp) == TASKS
    for task in TASKS:
        torch.testing.assert_close(cpu[task], warp[task])


def test_pictures_show_the_same_world(envs: tuple[MultiTaskEnv, MultiTaskEnv]) -> None:
    for env in envs:
        env.seed(6)
        env.reset()
    for task, count in zip(TASKS, WORLDS, strict=True):
        ours, theirs = (pose_of(env, task, count - 1) for env in envs)
        for name in ("qpos", "mocap_pos", "mocap_quat"):
            one, other = (torch.from_numpy(getattr(pose, name)) for pose in (ours, theirs))
            torch.testing.assert_close(one, other, atol=1e-6, rtol=0)
