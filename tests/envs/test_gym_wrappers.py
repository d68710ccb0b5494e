"""Gymnasium's vector wrappers around our environment: each one that can apply to vectors of numbers does its work."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import vector as wrappers

LENGTH = 3
# Wrappers of other kinds of environments: pictures, dictionaries, bounded observations, other libraries, a window.
NOT_FOR_US = {"FilterObservation", "GrayscaleObservation", "ResizeObservation", "RescaleObservation"}
NOT_FOR_US |= {"ArrayConversion", "JaxToNumpy", "JaxToTorch", "HumanRendering"}
WIDE = Box(-np.inf, np.inf, (39,), np.float32)
WIDE_BATCH = Box(-np.inf, np.inf, (4, 39), np.float32)


def make(**options: Any) -> VectorEnv:
    return gymnasium.make_vec(
        "polytask/reach-v0", num_envs=4, threads=1, episode_length=LENGTH, width=64, height=48, **options
    )


WRAPPERS: dict[str, Callable[[VectorEnv], VectorEnv]] = {
    "VectorizeTransformObservation": lambda env: wrappers.VectorizeTransformObservation(
        env, gymnasium.wrappers.TransformObservation, func=lambda obs: obs + 1, observation_space=WIDE
    ),
    "VectorizeTransformAction": lambda env: wrappers.VectorizeTransformAction(
        env,
        gymnasium.wrappers.TransformAction,
        func=lambda action: action / 2,
        action_space=Box(-2, 2, (4,), np.float32),
    ),
    "VectorizeTransformReward": lambda env: wrappers.VectorizeTransformReward(
        env, gymnasium.wrappers.TransformReward, func=lambda reward: reward + 1
    ),
    "DictInfoToList": wrappers.DictInfoToList,
    "TransformObservation": lambda env: wrappers.TransformObservation(
        env, lambda obs: obs + 1, observation_space=WIDE_BATCH, single_observation_space=WIDE
    ),
    "FlattenObservation": wrappers.FlattenObservation,
    "ReshapeObservation": lambda env: wrappers.ReshapeObservation(env, (3, 13)),
    "DtypeObservation": lambda env: wrappers.DtypeObservation(env, np.float64),
    "NormalizeObservation": wrappers.NormalizeObservation,
    "TransformAction": lambda env: wrappers.TransformAction(
        env,
        lambda action: action / 2,
        action_space=Box(-2, 2, (4, 4), np.float32),
        single_action_space=Box(-2, 2, (4,), np.float32),
    ),
    "ClipAction": wrappers.ClipAction,
    "RescaleAction": lambda env: wrappers.RescaleAction(env, np.float32(-2), np.float32(2)),
    "TransformReward": lambda env: wrappers.TransformReward(env, lambda reward: reward + 1),
    "ClipReward": lambda env: wrappers.ClipReward(env, 0.0, 1e-6),
    "NormalizeReward": wrappers.NormalizeReward,
    "RecordEpisodeStatistics": wrappers.RecordEpisodeStatistics,
    "NumpyToTorch": lambda env: wrappers.NumpyToTorch(env),
}
ONLY_NEXT_STEP = {"NormalizeObservation", "TransformObservation", "VectorizeTransformObservation"}
ONLY_NEXT_STEP |= {"FlattenObservation", "ReshapeObservation", "DtypeObservation"}


def test_every_wrapper_of_gymnasium_is_listed() -> None:
    assert set(wrappers.__all__) == {*WRAPPERS, *NOT_FOR_US, "RecordVideo"}


@pytest.mark.parametrize("mode", ["same_step", "next_step"])
@pytest.mark.parametrize("name", WRAPPERS)
def test_a_wrapper_plays_two_episodes(name: str, mode: str) -> None:
    if name == "NumpyToTorch":
        pytest.importorskip("array_api_compat", reason="Gymnasium's conversions need array-api-compat")
    plain, base = make(autoreset_mode=mode), make(autoreset_mode=mode)
    if mode == "same_step" and name in ONLY_NEXT_STEP:
        with pytest.raises(ValueError, match=r"NEXT_STEP"):
            WRAPPERS[name](base)
        return
    env = WRAPPERS[name](base)
    env.reset(seed=0)
    plain.reset(seed=0)
    action = np.full((4, 4), 0.5, np.float32)
    given = torch.from_numpy(action) if name == "NumpyToTorch" else action
    for number in range(2 * LENGTH + 2):
        obs, reward, _, truncated, info = env.step(given)
        expected = plain.step(action / 2 if name in {"TransformAction", "VectorizeTransformAction"} else action)
        if name == "RescaleAction":
            continue
        check(name, (obs, reward, truncated, info), expected, number)
    env.close()


def check(name: str, found: tuple[Any, ...], expected: tuple[Any, ...], number: int) -> None:
    """Compare a step through a wrapper with the same step without it."""
    obs, reward, truncated, info = found
    raw_obs, raw_reward, _, raw_truncated, raw_info = expected
    assert np.array_equal(np.asarray(truncated), raw_truncated)
    if name in {"TransformObservation", "VectorizeTransformObservation"}:
        np.testing.assert_allclose(obs, raw_obs + 1)
    elif name == "NormalizeObservation":
        assert obs.shape == raw_obs.shape
    else:
        assert np.array_equal(np.asarray(obs).reshape(raw_obs.shape), raw_obs)
    if name in {"TransformReward", "VectorizeTransformReward"}:
        np.testing.assert_allclose(reward, raw_reward + 1)
    elif name == "ClipReward":
        assert (reward <= 1e-6).all()
    elif name == "NormalizeReward":
        assert np.isfinite(reward).all()
    else:
        assert np.array_equal(np.asarray(reward), raw_reward)
    if name == "DictInfoToList":
        assert [one["success"] for one in info] == raw_info["success"].tolist()
        assert all(("final_obs" in one) == ("final_obs" in raw_info) for one in info)
    if name == "RecordEpisodeStatistics" and truncated.any():
        assert info["episode"]["l"].tolist() == [LENGTH] * 4
    if name == "NumpyToTorch":
        assert isinstance(obs, torch.Tensor)


def test_rescaled_actions_reach_the_worlds_in_their_own_range() -> None:
    with make() as plain:
        env = WRAPPERS["RescaleAction"](make())
        plain.reset(seed=0)
        env.reset(seed=0)
        one, other = plain.step(np.full((4, 4), 0.5)), env.step(np.full((4, 4), 1.0, np.float32))
        np.testing.assert_allclose(one[0], other[0], atol=1e-6)
        env.close()


@pytest.mark.skipif(find_spec("moviepy") is None, reason="Gymnasium's RecordVideo needs moviepy")
def test_gymnasium_records_a_video(tmp_path: Path) -> None:
    env = wrappers.RecordVideo(make(render_mode="rgb_array", autoreset_mode="next_step"), str(tmp_path / "films"))
    env.reset(seed=0)
    for _ in range(LENGTH + 2):
        env.step(env.action_space.sample())
    env.close()
    assert {path.suffix for path in (tmp_path / "films").iterdir()} == {".mp4"}
