"""MuJoCo and MuJoCo Warp (on its CPU device) simulate the same worlds.

Warp computes in float32 with at most ten solver iterations, MuJoCo in float64 with fifty. Free motion agrees to about
1e-5 m over 100 control steps. Contact amplifies rounding errors: a hand that slides off a handle one step earlier is
centimetres away for a moment. So single steps of contact-rich scenes have a wide tolerance, the last step a narrow one.
"""

from __future__ import annotations

import pytest
import torch

import polytask
from polytask.envs.scripted import ScriptedPolicy
from polytask.envs.suites import SUITES

STEPS = 100
FREE_STEPS = 10  # before any hand touches anything
WORLDS = 2


@pytest.fixture(scope="module")
def trajectories() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return observations (T, N, 39) of both simulators under the same scripted actions, and the task of each world."""
    envs = [
        polytask.make("mt10", num_envs=10 * WORLDS, sim=sim, stagger=False, episode_length=500, threads=1, seed=1)
        for sim in ("cpu", "warp")
    ]
    policy = ScriptedPolicy(envs[0])
    frames: tuple[list[torch.Tensor], list[torch.Tensor]] = ([envs[0].obs.clone()], [envs[1].obs.clone()])
    for _ in range(STEPS):
        action = policy(envs[0].obs, envs[0].task)
        for env, record in zip(envs, frames, strict=True):
            record.append(env.step(action).obs.clone())
    return torch.stack(frames[0]), torch.stack(frames[1]), envs[0].task


def test_first_observations_are_equal(trajectories: tuple[torch.Tensor, ...]) -> None:
    cpu, warp, _ = trajectories
    torch.testing.assert_close(cpu[0], warp[0], atol=1e-6, rtol=0)  # float32 kinematics


@pytest.mark.parametrize("index", range(10), ids=SUITES["mt10"])
def test_trajectories_agree(trajectories: tuple[torch.Tensor, ...], index: int) -> None:
    cpu, warp, task = trajectories
    gap = (cpu - warp)[:, task == index].abs()
    hand, obj = gap[..., 0:3].amax((1, 2)), gap[..., 4:7].amax((1, 2))  # (T,) metres
    assert hand[:FREE_STEPS].max() < 1e-3
    assert obj[:FREE_STEPS].max() < 1e-3
    assert hand.max() < 0.05  # a contact may break a step earlier
    assert hand[-1] < 0.01
    assert obj[-1] < 0.01
    assert obj.mean() < 5e-3


def test_reset_distributions_agree() -> None:
    """Both simulators draw the same placements from the same seed."""
    cpu, warp = (
        polytask.make("mt10", num_envs=40, sim=sim, episode_length=1, threads=1, seed=2, stagger=False)
        for sim in ("cpu", "warp")
    )
    for _ in range(3):
        torch.testing.assert_close(cpu.obs, warp.obs, atol=1e-5, rtol=0)
        cpu.reset()
        warp.reset()
