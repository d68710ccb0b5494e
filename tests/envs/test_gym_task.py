"""Single Gymnasium environments: Gymnasium's own checks, pictures, seeds and the end of episodes."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from polytask.envs.suites import SUITES
from polytask.errors import UserError

QUICK = ["reach", "drawer-open", "wide-stairs"]
ALL = sorted({task for tasks in SUITES.values() for task in tasks})
SMALL = {"threads": 1, "width": 64, "height": 48}


@pytest.mark.filterwarnings("ignore:.*A Box observation space:UserWarning")  # positions have no declared bounds
@pytest.mark.parametrize(
    "task", [*QUICK, *(pytest.param(task, marks=pytest.mark.slow) for task in ALL if task not in QUICK)]
)
def test_gymnasium_finds_no_fault(task: str) -> None:
    env = gymnasium.make(f"polytask/{task}-v0", render_mode="rgb_array", **SMALL)
    check_env(env.unwrapped)
    env.close()


def test_an_episode_ends_with_its_last_observation() -> None:
    with gymnasium.make("polytask/reach-v0", episode_length=3, **SMALL) as env:
        first, _ = env.reset(seed=4)
        seen = [first]
        for step in range(3):
            obs, reward, terminated, truncated, info = env.step(np.ones(4))
            assert (terminated, truncated) == (False, step == 2)
            assert np.array_equal(obs[18:36], seen[-1][:18])  # the previous frame: no new episode has begun
            assert isinstance(reward, float)
            assert info == {"success": False}
            seen.append(obs)
        again, _ = env.reset()
        assert not np.array_equal(again, first)
        assert np.array_equal(env.reset(seed=4)[0], first)


def test_pictures_follow_the_world_and_do_not_show_the_next_episode() -> None:
    with gymnasium.make("polytask/reach-v0", render_mode="rgb_array", episode_length=20, **SMALL) as env:
        env.reset(seed=0)
        frames = [env.render()]
        for _ in range(20):
            env.step(np.ones(4))
            frames.append(env.render())
        assert frames[0].shape == (48, 64, 3)
        assert not np.array_equal(frames[0], frames[-2])
        assert np.array_equal(frames[-1], frames[-2])  # the hand is still far from where an episode starts
        env.reset(seed=0)
        assert np.array_equal(env.render(), frames[0])


def test_without_a_render_mode_there_are_no_pictures() -> None:
    env = gymnasium.make("polytask/reach-v0", **SMALL).unwrapped
    env.reset()
    assert env.render() is None
    env.close()
    with pytest.raises(UserError, match="this environment is closed; make a new one"):
        env.step(np.zeros(4))
    with pytest.raises(UserError, match="closed"):
        env.reset()


def test_pictures_are_made_at_the_control_rate() -> None:
    rates = []
    for task in ("reach", "flat"):
        env = gymnasium.make(f"polytask/{task}-v0", **SMALL)
        before = env.unwrapped.env.groups[0].batch.model.opt.timestep
        rates.append((env.metadata["render_fps"], before))
        env.close()
    assert rates == [(80, pytest.approx(1 / 80 / 5)), (50, pytest.approx(1 / 50 / 4))]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"render_mode": "depth"}, "render_mode=depth is not valid; known: rgb_array"),
        ({"width": 3}, "width=3 is not valid; it must be at least 16 and at most 4096"),
        ({"robbot": "panda"}, "unknown option 'robbot'; did you mean 'robot'?"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*render_mode:UserWarning")
def test_wrong_options_are_one_line(options: dict[str, object], line: str) -> None:
    with pytest.raises(UserError) as caught:
        gymnasium.make("polytask/reach-v0", **{"threads": 1, **options})
    assert str(caught.value).startswith(line)
