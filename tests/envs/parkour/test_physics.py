"""The physics is stable for robots that stand or act at random on the tiles, and both simulators agree."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
import torch
from helpers.parkour_worlds import make, only, pose

import polytask
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.parkour.course import PIT
from polytask.envs.parkour.worlds import ParkourGroup
from polytask.robots.go1 import read_motion
from polytask.sim.cpu import CpuBatch


def groups(env: MultiTaskEnv) -> list[ParkourGroup]:
    return [group for group in env.groups if isinstance(group, ParkourGroup)]


def stand(suite: str, num_envs: int, sim: str, steps: int) -> torch.Tensor:
    """Let robots with nominal bodies stand in their default pose; return the trunk's height. (T, N)"""
    env = polytask.make(suite, num_envs=num_envs, sim=sim, stagger=False, threads=1)
    for group in groups(env):
        for name, value in (("stiffness", 1.0), ("damping", 1.0), ("load", 0.0), ("shift", 0.0), ("friction", 1.0)):
            getattr(group.body, name).fill_(value)
        group.load_state_dict(group.state_dict())  # writes the bodies into the physics
        group.buffers.uniform.zero_()
        group.reset(torch.ones_like(group.buffers.diverged))
    heights = []
    for _ in range(steps):
        step = env.step(torch.zeros(num_envs, 12))
        assert torch.isfinite(step.next_obs).all()
        assert not (step.terminated | step.truncated).any()
        heights.append(torch.cat([group.batch.qpos[:, 2] for group in groups(env)]))
    return torch.stack(heights)


def compare_standing(suite: str, num_envs: int, steps: int) -> None:
    cpu, warp = (stand(suite, num_envs, sim, steps) for sim in ("cpu", "warp"))
    assert (cpu - warp).abs().max() < 0.01
    assert (cpu[-1] - 0.30).abs().max() < 0.02


def test_robots_stand_alike_on_both_simulators() -> None:
    compare_standing("parkour-hard", num_envs=21, steps=50)


@pytest.mark.slow
def test_robots_stand_for_five_seconds_on_every_tile() -> None:
    compare_standing("parkour-hard", num_envs=210, steps=250)


def test_curriculum_moves_worlds_alike_on_both_simulators() -> None:
    """Observations agree for robots that act at random and change tiles after every tenth step."""
    options = {"num_envs": 6, "levels": "curriculum", "episode_length": 10, "stagger": False, "threads": 1}
    envs = [polytask.make(tasks=["wide-stairs", "dome", "poles"], sim=sim, **options) for sim in ("cpu", "warp")]
    for env in envs:
        for group in groups(env):
            for level in (group.episode.level, group.episode.own_level):
                level.copy_(torch.tensor([0, 9, 9, 2, 5, 9]))
            group.episode.goal.copy_(torch.tensor([7, 2, 7, 0, 5, 8]))
    generator = torch.Generator().manual_seed(0)
    for _ in range(25):
        action = torch.rand(6, 12, generator=generator) - 0.5
        cpu, warp = (env.step(action) for env in envs)
        assert (cpu.obs - warp.obs).abs().max() < 0.02
        assert torch.equal(cpu.truncated, warp.truncated)
    levels = [group.episode.level.tolist() for env in envs for group in groups(env)]
    assert levels[0] == levels[1]
    assert levels[0][:2] == [0, 7]  # up, then down; down twice


def penetrations(group: ParkourGroup) -> np.ndarray:
    """Return the depth of every contact of a batch, in metres."""
    if not isinstance(group.batch, CpuBatch):
        contacts = group.batch.warp_data
        return -contacts.contact.dist.numpy()[: int(contacts.nacon.numpy()[0])]
    model, data = group.batch.model.__copy__(), mujoco.MjData(group.batch.model)
    depths = []
    for world in range(group.batch.num_worlds):
        group.batch.copy_layout(world, model)
        data.qpos[:] = group.batch.qpos[world].numpy()
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_collision(model, data)
        depths.append(-data.contact.dist.copy())
    return np.concatenate(depths)


def struggle(num_envs: int, steps: int, sim: str, every: int) -> np.ndarray:
    """Act at random; return the depths of contacts, read in every `every`-th step."""
    env = polytask.make("parkour-hard", num_envs=num_envs, threads=1, sim=sim)
    generator = torch.Generator().manual_seed(0)
    depths = [np.zeros(0)]
    for index in range(steps):
        step = env.step(2 * torch.rand(num_envs, 12, generator=generator) - 1)
        assert torch.isfinite(step.next_obs).all()
        assert torch.isfinite(step.reward).all()
        speed = torch.cat([group.batch.qvel.abs().amax(-1) for group in groups(env)])
        assert (speed < 150.0).all()  # a runaway world has been reset
        if index % every == 0:
            depths += [penetrations(group) for group in groups(env)]
    assert float(env.pop_metrics()["diverged"].sum()) <= 0.0005 * num_envs * steps
    return np.concatenate(depths)


def test_random_actions_do_no_harm() -> None:
    depths = struggle(num_envs=63, steps=60, sim="cpu", every=10)
    assert len(depths) > 100
    assert (depths > 0.05).mean() < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("sim", ["cpu", "warp"])
def test_random_actions_for_long_do_no_harm(sim: str) -> None:
    depths = struggle(num_envs=200, steps=500, sim=sim, every=10)
    assert len(depths) > 1000
    assert (depths > 0.05).mean() < 0.001


# Front thighs, front calves, rear thighs and rear calves, rad from the standing pose, 0.08 s each; found by search.
LEAP = (
    (0.6, -1.0, 0.0, -0.4, 0.8, 0.5, -1.0, 0.0),
    (-1.0, -0.7, -1.0, -1.0, -0.8, 1.0, -1.0, 1.0),
    (0.95, 0.95, 1.0, 1.0, 1.0, -1.0, 1.0, -1.0),
    (1.0, -1.0, -0.05, -1.0, -1.0, -1.0, 0.95, -0.95),
)


def test_a_robot_can_leap_over_a_gap_of_the_last_level() -> None:
    """From a stand at the edge; a policy that falls here has not learned it."""
    env = make("even-gaps", num_envs=64, level=9, body="nominal")
    group = only(env)
    ground = group.tiles.ground[9].view(360, 80)[:, 40]
    assert (ground[40:52] == PIT).all() and ground[52] == 0.0  # from 2 m to 2.6 m
    everyone = torch.ones(64, dtype=torch.bool)
    group.batch.reset(everyone, pose(1.72, 0.0).expand(64, -1), torch.zeros(64, 18))
    generator, fell = torch.Generator().manual_seed(0), torch.zeros(64, dtype=torch.bool)
    for index in range(75):
        action = 0.02 * torch.randn(64, 4, 3, generator=generator)
        if 5 <= index < 37:
            action[:, :, 1:] += torch.tensor(LEAP)[:, (index - 5) // 4].view(2, 2).repeat_interleave(2, 0)
        fell |= env.step(action.flatten(1)).terminated
    motion = read_motion(group.batch)
    stands = (motion.position[:, 0] > 2.9) & (motion.position[:, 2] > 0.2) & (motion.pitch.abs() < 1.0) & ~fell
    assert stands.float().mean() > 0.4
