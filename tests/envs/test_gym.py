"""The Gymnasium vector environment: arrays and tensors, seeds, ends of episodes, resets, pictures."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, VectorEnv

from polytask.errors import UserError

TASKS = ["reach", "drawer-open"]


def make(num_envs: int = 4, **options: Any) -> VectorEnv:
    return gymnasium.make_vec(
        "polytask/MT10-v0", num_envs=num_envs, **{"tasks": TASKS, "threads": 1, "episode_length": 3, **options}
    )


def play(env: VectorEnv, steps: int) -> list[tuple[Any, ...]]:
    """Apply the same actions that every call of this function applies."""
    random = np.random.default_rng(0)
    return [env.step(random.uniform(-1, 1, env.action_space.shape)) for _ in range(steps)]


def test_make_vec_builds_a_suite_by_name() -> None:
    with gymnasium.make_vec("polytask/MT10-v0", num_envs=20, threads=1) as env:
        obs, info = env.reset(seed=1)
        assert obs.shape == env.observation_space.shape == (20, 39)
        assert (obs.dtype, env.action_space.shape) == (np.float32, (20, 4))
        assert info["task"].tolist() == sorted(list(range(10)) * 2)
        assert np.array_equal(env.reset(seed=1)[0], obs)
        assert not np.array_equal(env.reset(seed=2)[0], obs)


def test_a_task_has_a_vector_environment_too() -> None:
    with gymnasium.make_vec("polytask/drawer-open-v0", num_envs=3, threads=1) as env:
        assert env.unwrapped.env.spec.envs_per_task == (3,)
        assert env.reset()[0].shape == (3, 39)


def test_worlds_per_task_replace_the_number_that_gymnasium_always_gives() -> None:
    with gymnasium.make_vec("polytask/MT10-v0", tasks=TASKS, envs_per_task=[1, 2], threads=1) as env:
        assert (env.num_envs, env.unwrapped.env.spec.envs_per_task) == (3, (1, 2))


@pytest.mark.parametrize(("output", "kind"), [("numpy", np.ndarray), ("torch", torch.Tensor)])
def test_all_outputs_are_of_the_chosen_kind_and_belong_to_the_caller(output: str, kind: type) -> None:
    with make(output=output) as env:
        first, _ = env.reset(seed=0)
        kept = first + 0
        results = play(env, 3)
        assert (first == kept).all()
        for obs, reward, terminated, truncated, info in results:
            for value in (obs, reward, terminated, truncated, info["task"], info["success"]):
                assert type(value) is kind
        assert type(results[-1][4]["final_obs"]) is kind


def test_arrays_and_tensors_have_the_same_values() -> None:
    with make() as arrays, make(output="torch") as tensors:
        assert np.array_equal(arrays.reset(seed=0)[0], tensors.reset(seed=0)[0].numpy())
        for one, other in zip(play(arrays, 4), play(tensors, 4), strict=True):
            assert all(np.array_equal(a, b.numpy()) for a, b in zip(one[:4], other[:4], strict=True))


def test_same_step_shows_the_end_in_the_info_and_the_start_in_the_observation() -> None:
    with make() as env:
        assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
        env.reset(seed=0)
        (_, *_, early), (obs, *_), (after, _, terminated, truncated, info) = play(env, 3)
        assert not {"final_obs", "final_info"} & set(early)
        assert truncated.all()
        assert not terminated.any()
        assert info["_final_obs"].all()
        assert info["_final_info"].all()
        assert np.array_equal(info["final_obs"][:, 18:36], obs[:, :18])
        assert np.array_equal(after[:, 18:36], after[:, :18])  # the first frame of an episode is its own previous one
        assert np.array_equal(info["final_info"]["success"], info["success"])


def test_next_step_spends_a_step_on_the_reset() -> None:
    with make(autoreset_mode=AutoresetMode.NEXT_STEP) as env, make() as other:
        assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
        env.reset(seed=0)
        other.reset(seed=0)
        results, same = play(env, 7), play(other, 3)
        assert [bool(truncated.all()) for _, _, _, truncated, _ in results] == [False, False, True, *[False] * 3, True]
        assert np.array_equal(results[2][0], same[2][4]["final_obs"])
        start, reward, *_, info = results[3]
        assert np.array_equal(start[:, 18:36], start[:, :18])
        assert not reward.any()
        assert "final_obs" not in info
        assert np.array_equal(results[4][0][:, 18:36], start[:, :18])  # the episode goes on from that start
        assert results[4][1].all()


def test_disabled_waits_for_a_reset_of_the_ended_worlds() -> None:
    # Two lengths of episodes: after a partial reset, the worlds are at different steps.
    with make(autoreset_mode="disabled") as env:
        env.reset(seed=0)
        play(env, 1)
        mask = np.array([True, False, False, True])
        env.reset(options={"reset_mask": mask})
        obs, _, _, truncated, _ = play(env, 2)[-1]
        assert truncated.tolist() == [False, True, True, False]
        with pytest.raises(UserError, match="call reset with a reset_mask"):
            env.step(env.action_space.sample())
        after, _ = env.reset(options={"reset_mask": truncated})
        assert np.array_equal(after[mask], obs[mask])
        assert not np.array_equal(after[~mask], obs[~mask])
        assert np.array_equal(after[~mask][:, 18:36], after[~mask][:, :18])
        assert play(env, 1)[0][3].tolist() == mask.tolist()


def test_a_mask_that_leaves_an_ended_world_shows_its_last_observation() -> None:
    with make(autoreset_mode="disabled") as env:
        env.reset(seed=0)
        last = play(env, 3)[-1][0]
        mask = np.array([True, False, False, False])
        obs, _ = env.reset(options={"reset_mask": mask})
        assert np.array_equal(obs[1:], last[1:])
        assert not np.array_equal(obs[0], last[0])


def test_a_mask_leaves_the_other_worlds_alone() -> None:
    with make(episode_length=20) as env, make(episode_length=20) as other:
        for one in (env, other):
            one.reset(seed=0)
            play(one, 2)
        before = play(env, 1)[0][0]
        play(other, 1)
        mask = np.array([False, True, False, False])
        obs, _ = env.reset(options={"reset_mask": mask})
        assert np.array_equal(obs[~mask], before[~mask])
        assert not np.array_equal(obs[mask], before[mask])
        ours, theirs = play(env, 2)[-1], play(other, 2)[-1]
        assert np.array_equal(ours[0][~mask], theirs[0][~mask])


@pytest.mark.parametrize("mask", [np.zeros(4, bool), np.ones(3, bool), np.ones(4, int)])
def test_a_wrong_mask_is_one_line(mask: np.ndarray) -> None:
    with make() as env, pytest.raises(UserError, match="reset_mask must be 4 booleans, at least one of them true"):
        env.reset(options={"reset_mask": mask})


def test_a_list_of_seeds_gives_each_world_its_own_start() -> None:
    with make() as env:
        first, _ = env.reset(seed=[5, 6, 7, 7])
        assert np.array_equal(first[2], first[3])
        later = [obs for obs, *_ in play(env, 4)]
        other, _ = env.reset(seed=[6, 6, 7, None])
        assert np.array_equal(other[0], first[1])
        assert np.array_equal(other[2], first[2])
        assert not np.array_equal(other[3], first[3])
        env.reset(seed=[5, 6, 7, 7])
        assert all(np.array_equal(one, obs) for one, (obs, *_) in zip(later, play(env, 4), strict=True))


@pytest.mark.parametrize("seed", [-1, 2**32, [1, 2, 3], [1, 2, 3, -4], [1, 2, 3, 0.5]])
def test_wrong_seeds_are_one_line(seed: Any) -> None:
    with make() as env, pytest.raises(UserError, match=r"^(seed=.* is not valid|there are 3 seeds for 4 worlds)"):
        env.reset(seed=seed)


def test_a_task_code_is_appended() -> None:
    with make(task_code="onehot") as env, make() as plain:
        obs, _ = env.reset(seed=0)
        assert obs.shape == env.observation_space.shape == (4, 41)
        assert obs[:, 39:].tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]
        assert np.array_equal(obs[:, :39], plain.reset(seed=0)[0])
        assert env.observation_space.contains(obs)
        last = play(env, 3)[-1]
        assert np.array_equal(last[4]["final_obs"][:, 39:], obs[:, 39:])
        assert np.array_equal(last[0][:, 39:], obs[:, 39:])


def test_every_world_is_drawn() -> None:
    with make(render_mode="rgb_array", width=64, height=48, autoreset_mode="next_step") as env:
        env.reset(seed=0)
        play(env, 2)
        frames = env.render()
        assert [frame.shape for frame in frames] == [(48, 64, 3)] * 4
        assert not np.array_equal(frames[0], frames[2])
        play(env, 1)
        assert all(np.array_equal(one, other) for one, other in zip(env.render(), frames, strict=True))
        play(env, 1)
        assert not np.array_equal(env.render()[0], frames[0])
    with make() as env:
        assert env.render() is None


def test_a_closed_environment_refuses_to_step() -> None:
    env = make()
    env.close()
    env.close()
    with pytest.raises(UserError, match="this environment is closed; make a new one"):
        env.step(env.action_space.sample())


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"output": "jax"}, "output=jax is not valid; known: numpy, torch"),
        ({"autoreset_mode": "never"}, "autoreset_mode=never is not valid; known: same_step, next_step, disabled"),
        ({"task_code": "two"}, "task_code=two is not valid; known: none, onehot"),
        ({"num_envs": 1}, "num_envs=1 is too few for 2 tasks"),
    ],
)
def test_wrong_options_are_one_line(options: dict[str, Any], line: str) -> None:
    with pytest.raises(UserError) as caught:
        make(**options)
    assert str(caught.value).startswith(line)


def test_actions_of_another_shape_are_refused() -> None:
    with make() as env:
        env.reset()
        with pytest.raises(UserError, match=r"the actions have shape \(4,\); it must be \(4, 4\)"):
            env.step(np.zeros(4))
