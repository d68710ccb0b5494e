"""Parkour worlds: observations, waypoints, start and end of episodes, and resuming."""

from __future__ import annotations

import math

import pytest
import torch
from helpers.parkour_worlds import conclude_at, make, only, pose
from torch.testing import assert_close

import polytask
from polytask.envs.parkour.tasks import TASKS
from polytask.envs.parkour.worlds import ParkourGroup
from polytask.robots.go1 import DEFAULT, HIGH, LOW

ALL = tuple(TASKS)


def test_sizes_are_those_of_the_benchmark() -> None:
    env = make("flat", num_envs=2)
    assert env.spec.obs_dim + len(ALL) == 233  # the network appends the task code
    assert env.spec.action_dim == 12
    assert env.spec.episode_length == 2000


def test_observation_by_hand() -> None:
    env = make("flat", num_envs=1)
    group = only(env)
    group.tiles.goals[0, 0] = torch.tensor([4.0, 2.0 - 1.0])
    group.tiles.goals[0, 1] = torch.tensor([3.0, 2.0])
    joints = torch.tensor(DEFAULT) + 0.01 * torch.arange(12)
    qvel = torch.cat([torch.tensor([0.6, 0.2, 0.1, 1.0, -2.0, 3.0]), torch.arange(12) * 0.5])
    env._buffers.action.copy_(torch.linspace(-1, 1, 12))
    group.episode.command.fill_(0.5)
    yaw = math.pi / 2
    conclude_at(env, pose(3.0, 0.0, z=0.45, yaw=yaw, joints=joints), qvel)
    obs = env._buffers.next_obs[0]
    assert_close(obs[0:3], torch.tensor([0.25, -0.5, 0.75]))  # body angular velocity x 0.25
    assert_close(obs[3:5], torch.zeros(2), atol=1e-6, rtol=0)  # roll, pitch
    assert_close(obs[5], torch.tensor(math.pi / 4 - yaw), atol=1e-6, rtol=0)  # to (4, 1) from (3, 0)
    assert_close(obs[6], torch.tensor(0.0), atol=1e-6, rtol=0)  # to (3, 2): straight ahead
    assert_close(obs[7], torch.tensor(0.5))
    assert_close(obs[8:20], 0.01 * torch.arange(12), atol=1e-6, rtol=0)
    assert_close(obs[20:32], 0.025 * torch.arange(12))
    assert_close(obs[32:44], torch.linspace(-1, 1, 12))
    assert_close(obs[44:48], torch.full((4,), -0.5))  # no foot touches
    assert_close(obs[48:180], torch.full((132,), 0.15), atol=1e-6, rtol=0)  # 0.45 - 0.3 above flat ground
    assert_close(obs[180:183], torch.tensor([0.4, -1.2, 0.2]), atol=1e-6, rtol=0)  # facing +y: (0.2, -0.6, 0.1) x 2
    body = group.body
    expected = torch.cat([body.load, body.shift, body.friction, body.stiffness - 1, body.damping - 1], -1)
    assert_close(obs[183:212], expected[0])


def test_angles_to_goals_are_wrapped() -> None:
    env = make("flat", num_envs=1)
    group = only(env)
    group.tiles.goals[0, 0] = torch.tensor([2.0, -0.1])
    conclude_at(env, pose(3.0, 0.0, yaw=3.0))  # the goal is at -3.04 rad; the short way is +0.24
    bearing = math.atan2(-0.1, -1.0)
    assert_close(env._buffers.next_obs[0, 5], torch.tensor(bearing - 3.0 + 2 * math.pi), atol=1e-5, rtol=0)


def test_scan_and_headings_are_renewed_every_fifth_step_and_at_once_after_a_reset() -> None:
    env = make("flat", num_envs=2, episode_length=13)
    seen = []
    for _ in range(12):
        env.step(torch.zeros(2, 12))
        seen.append(env._buffers.next_obs[0, 48:180].clone())
    changes = [step + 2 for step in range(11) if not torch.equal(seen[step], seen[step + 1])]
    assert changes == [5, 10]
    step = env.step(torch.zeros(2, 12))
    assert step.truncated.all()
    assert_close(step.obs[:, 48:180], torch.full((2, 132), 0.12), atol=1e-6, rtol=0)  # starts at 0.42 m


def test_foot_contact_lasts_one_step_longer() -> None:
    env = make("flat", num_envs=1)
    group = only(env)
    for forces, expected in (((3.0, 0.0), (0.5, -0.5)), ((0.0, 1.9), (0.5, -0.5)), ((0.0, 2.1), (-0.5, 0.5))):
        group.batch.sensordata.zero_()
        group.batch.sensordata[0, 0], group.batch.sensordata[0, 4] = forces  # of the two front feet
        conclude_at(env, pose(3.0, 0.0))
        assert_close(env._buffers.next_obs[0, 44:46], torch.tensor(expected))


def test_goal_counts_after_two_steps_within_reach_and_need_not_be_consecutive() -> None:
    env = make("flat", num_envs=1)
    group = only(env)
    group.tiles.goals[0, 0] = torch.tensor([3.0, 0.0])
    group.tiles.goals[0, 1:] = torch.tensor([9.0, 0.0])
    progress = []
    for x in (2.71, 2.6, 2.71, 3.0):
        conclude_at(env, pose(x, 0.0))
        progress.append(float(env.score[0]) * 8)
    assert progress == [0, 0, 1, 1]


def test_last_goal_ends_the_episode_as_a_success_that_may_be_bootstrapped() -> None:
    env = make("flat", num_envs=1)
    group = only(env)
    group.tiles.goals[0, 7] = torch.tensor([9.0, 0.0])
    group.episode.goal.fill_(7)
    env._buffers.counts.fill_(True)
    conclude_at(env, pose(9.0, 0.0))
    assert not env._buffers.truncated.any()
    conclude_at(env, pose(9.0, 0.0))
    b = env._buffers
    assert (b.success.tolist(), b.truncated.tolist(), b.terminated.tolist()) == ([True], [True], [False])
    assert group.episode.goal.tolist() == [0]  # a new episode has begun
    assert_close(b.extras[0, :3], torch.tensor([1.0, 0.0, 2 * 0.02 / 8]))  # progress, falls, seconds per goal


@pytest.mark.parametrize(
    ("quat", "height", "falls"),
    [
        ((1.0, 0.0, 0.0, 0.0), 0.3, False),
        ((math.cos(1.2), math.sin(1.2), 0.0, 0.0), 0.3, False),  # rolled by 2.4
        ((math.cos(1.3), math.sin(1.3), 0.0, 0.0), 0.3, True),  # by 2.6
        ((math.cos(0.74), 0.0, math.sin(0.74), 0.0), 0.3, False),  # pitched by 1.48
        ((math.cos(0.76), 0.0, -math.sin(0.76), 0.0), 0.3, True),  # by -1.52
        ((1.0, 0.0, 0.0, 0.0), -0.24, False),
        ((1.0, 0.0, 0.0, 0.0), -0.26, True),  # in a pit
    ],
)
def test_a_fall_terminates(quat: tuple[float, ...], height: float, falls: bool) -> None:
    env = make("flat", num_envs=1)
    state = pose(3.0, 0.0, height)
    state[3:7] = torch.tensor(quat)
    conclude_at(env, state)
    assert env._buffers.terminated.tolist() == [falls]
    assert not env._buffers.truncated.any()


def test_a_fall_on_the_last_step_is_still_a_fall() -> None:
    env = make("flat", num_envs=1)
    env._buffers.timeout.fill_(True)
    conclude_at(env, pose(3.0, 0.0, -0.3))
    assert env._buffers.terminated.all()
    assert not env._buffers.truncated.any()


def test_falls_end_episodes_in_the_environment_and_are_counted() -> None:
    env = make("even-gaps", num_envs=4)
    group = only(env)
    qpos = group.batch.qpos.clone()
    qpos[:2, 0], qpos[:2, 1], qpos[:2, 2] = 4.0, 1.2, 0.2  # two robots beside the platforms, above the pit
    group.batch.reset(torch.ones(4, dtype=torch.bool), qpos, torch.zeros_like(group.batch.qvel))
    ended = torch.zeros(4, dtype=torch.bool)
    for _ in range(15):
        step = env.step(torch.zeros(4, 12))
        ended |= step.terminated
    assert ended.tolist() == [True, True, False, False]
    metrics = env.pop_metrics()
    assert metrics["falls"].tolist() == [2]
    assert metrics["episodes"].tolist() == [2]
    assert metrics["success"].tolist() == metrics["progress"].tolist() == [0]


def test_action_is_an_offset_from_the_default_pose() -> None:
    env = make("flat", num_envs=2)
    action = torch.linspace(-2, 2, 24).view(2, 12)
    env.step(action)
    assert_close(only(env).batch.ctrl, torch.tensor(DEFAULT) + action.clamp(-1, 1))


def test_commands_are_redrawn_every_300_steps_of_an_episode() -> None:
    env = make("flat", num_envs=3)
    group = only(env)
    before = group.episode.command.clone()
    group.buffers.length.copy_(torch.tensor([298, 299, 599]))
    env.step(torch.zeros(3, 12))
    changed = (group.episode.command != before).tolist()
    assert changed == [False, True, True]


def test_pushes_come_every_400_steps_and_replace_the_horizontal_velocity() -> None:
    env = make("flat", num_envs=64)
    group = only(env)
    group.episode.clock.fill_(398)
    env.step(torch.zeros(64, 12))
    before = group.batch.qvel.clone()
    env.step(torch.zeros(64, 12))
    after = group.batch.qvel
    assert not torch.equal(before[:, :2], after[:, :2])
    assert float(after[:, :2].abs().max()) <= 0.5
    assert float(after[:, :2].abs().max()) > 0.4
    assert after[:, 2].abs().max() > 0  # only the horizontal velocity is replaced


def test_start_states_and_bodies_have_the_stated_distributions() -> None:
    env = make("flat", num_envs=400, episode_length=1)
    groups = env.groups
    joints, commands = [], []
    for _ in range(3):
        env.step(torch.zeros(400, 12))
        for group in groups:
            assert isinstance(group, ParkourGroup)
            assert_close(
                group.batch.qpos[:, :7], torch.tensor([1.0, 0, 0.42, 1, 0, 0, 0]).expand(len(group.column), -1)
            )
            assert not group.batch.qvel.any()
            joints.append(group.batch.qpos[:, 7:].clone())
            commands.append(group.episode.command.clone())
    offset = torch.cat(joints) - torch.tensor(DEFAULT)
    assert (torch.cat(joints) <= torch.tensor(HIGH) + 1e-6).all()
    assert (torch.cat(joints) >= torch.tensor(LOW) - 1e-6).all()
    assert_close(offset[:, 1].mean(), torch.tensor(0.45), atol=0.04, rtol=0)  # thighs: U(0, 0.9)
    assert_close(offset[:, 1].max(), torch.tensor(0.9), atol=0.01, rtol=0)
    assert float((offset[:, 0] > 0.70).float().mean()) > 0.15  # hips stop at their limit of 0.8
    assert_close(torch.cat(commands).mean(), torch.tensor(0.55), atol=0.02, rtol=0)
    bodies = [group.body for group in groups]
    for name, low, high in (
        ("stiffness", 0.8, 1.2),
        ("damping", 0.8, 1.2),
        ("load", 0.0, 3.0),
        ("shift", -0.2, 0.2),
        ("friction", 0.6, 2.0),
    ):
        tensor = torch.cat([getattr(body, name) for body in bodies])
        assert low <= float(tensor.min())
        assert float(tensor.max()) <= high
        assert_close(tensor.mean(), torch.tensor((low + high) / 2), atol=0.05 * (high - low), rtol=0)


def test_bodies_are_felt_by_the_physics() -> None:
    env = make("flat", num_envs=3)
    group = only(env)
    model = group.batch.model.__copy__()
    group.batch.copy_layout(1, model)
    body, trunk = group.body, model.body("trunk")
    assert float(trunk.mass[0]) == pytest.approx(4.801 + float(body.load[1]), abs=1e-5)
    assert float(trunk.ipos[2]) == pytest.approx(0.0001067 + float(body.shift[1, 2]), abs=1e-5)
    assert model.actuator_gainprm[:, 0] == pytest.approx(50 * body.stiffness[1].numpy(), abs=1e-4)
    assert model.actuator_biasprm[:, 2] == pytest.approx(-3 * body.damping[1].numpy(), abs=1e-5)
    assert float(model.geom("FL_foot").friction[0]) == pytest.approx((float(body.friction[1]) + 1) / 2, abs=1e-6)
    assert float(model.geom("box00").friction[0]) == 1.0


def test_same_seed_same_run_on_any_number_of_threads() -> None:
    envs = [
        polytask.make("parkour-hard-cl", num_envs=84, seed=seed, threads=threads)
        for seed, threads in ((1, 1), (1, 2), (2, 1))
    ]
    assert [len(env.groups) for env in envs] == [2, 2, 2]
    generator = torch.Generator().manual_seed(0)
    for _ in range(30):
        action = 2 * torch.rand(84, 12, generator=generator) - 1
        first, second, third = (env.step(action).obs.clone() for env in envs)
        assert torch.equal(first, second)
    assert not torch.equal(first, third)


def test_state_dict_continues_bit_for_bit() -> None:
    def actions() -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(3)
        return [2 * torch.rand(8, 12, generator=generator) - 1 for _ in range(80)]

    options = {"num_envs": 8, "levels": "curriculum", "episode_length": 30}
    env = make("beam", "dome", **options)
    for action in actions()[:40]:
        env.step(action)
    saved = env.state_dict()
    expected = [env.step(action).obs.clone() for action in actions()[40:]]
    other = make("beam", "dome", seed=9, **options)
    other.load_state_dict(saved)
    for action, obs in zip(actions()[40:], expected, strict=True):
        assert torch.equal(other.step(action).obs, obs)
    levels = [e.world_metrics()["worlds_on_level/0"] for e in (env, other)]
    assert torch.equal(*levels)


@pytest.mark.parametrize("sim", ["cpu", "warp"])
def test_a_diverged_or_runaway_world_is_truncated_counted_and_never_seen(sim: str) -> None:
    env = make("flat", num_envs=4, sim=sim)
    before = env.step(torch.zeros(4, 12)).obs.clone()
    batch = only(env).batch
    broken = batch.qvel.clone()
    broken[1] = torch.nan
    broken[2, 8] = 1e4
    batch.reset(torch.tensor([False, True, True, False]), batch.qpos.clone(), broken)
    step = env.step(torch.zeros(4, 12))
    assert step.truncated.tolist() == [False, True, True, False]
    assert not step.terminated.any()
    assert torch.isfinite(step.obs).all()
    assert torch.equal(step.next_obs[1], before[1])
    assert step.reward[1] == 0
    assert env.pop_metrics()["diverged"].tolist() == [2]
    for _ in range(3):
        step = env.step(torch.zeros(4, 12))
    assert torch.isfinite(step.obs).all()
    assert not step.truncated.any()
