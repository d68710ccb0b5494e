"""The scan of the feet: what it shows, when, in a mirror, with errors and in descriptions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.parkour_worlds import conclude_at, make, only, pose
from torch.testing import assert_close

from polytask.config.compose import compose, to_plain
from polytask.config.schema import TrainConfig
from polytask.envs.layouts import PARKOUR, layout_of, parkour_layout
from polytask.envs.options import RealityOptions, ScanOptions
from polytask.envs.parkour.mirror import observation_mirror
from polytask.robots.go1 import read_feet, read_motion
from polytask.runs.policy import describe, layout_of_actor

FEET = ScanOptions(feet=True)
PLACE = slice(180, 216)  # of the scan in an observation


def test_the_points_lie_around_each_foot_along_the_heading() -> None:
    env = make("box-climb", num_envs=10, scan=FEET)
    for yaw in (0.0, 0.7, -2.0):
        group = conclude_at(env, pose(3.0, 0.2, yaw=yaw), clock=3)  # no look of the height scan
        heading = torch.tensor([yaw]).cos(), torch.tensor([yaw]).sin()
        height = float(read_motion(group.batch).position[0, 2])
        expected = []
        for foot in read_feet(group.batch)[0]:
            for ahead in (-0.05, 0.0, 0.05):
                for left in (-0.05, 0.0, 0.05):
                    x = foot[:1] + heading[0] * ahead - heading[1] * left
                    y = foot[1:2] + heading[1] * ahead + heading[0] * left
                    expected.append(height - 0.3 - float(group.tiles.ground_at(group.tile[:1], x, y)))
        shown = group.buffers.next_obs[0, PLACE]
        assert_close(shown, torch.tensor(expected), atol=1e-5, rtol=0)


def test_a_step_in_front_of_the_feet_is_seen_in_time() -> None:
    env = make("box-climb", num_envs=10, level=9, scan=FEET)
    group = conclude_at(env, pose(1.79, 0.0))  # front feet at 1.96 m, the box begins at 2 m
    front, rear = group.buffers.next_obs[0, PLACE].view(2, 2, 3, 3)  # legs, then along and across
    assert (front[:, 0] - front[:, 2] > 0.4).all()  # behind the foot the ground is lower than in front
    assert_close(rear, torch.zeros_like(rear), atol=1e-5, rtol=0)


def test_it_is_new_in_every_step_while_the_height_scan_waits() -> None:
    env = make("box-climb", num_envs=2, scan=FEET)
    group, kept = only(env), 0
    for _ in range(4):
        before = group.episode.scan.clone(), group.episode.foot_scan.clone()
        seen = env.step(torch.zeros(2, 12)).next_obs
        assert not torch.equal(seen[:, PLACE], before[1])  # the robots drop to the ground
        kept += torch.equal(group.episode.scan, before[0])
    assert kept >= 3


def test_a_new_episode_begins_with_its_own_scan() -> None:
    env = make("box-climb", num_envs=1, scan=FEET)
    conclude_at(env, pose(6.0, 0.0, z=0.7))
    env.reset()
    group = only(env)
    assert_close(env.obs[:, PLACE], torch.full((1, 36), 0.12), atol=1e-4, rtol=0)  # at 0.42 m over flat ground
    assert torch.equal(env.obs[:, PLACE], group.episode.foot_scan)


def test_a_mirror_swaps_the_legs_and_the_points_across() -> None:
    layout = parkour_layout(has_foot_scan=True)
    x = torch.zeros(1, layout.obs_dim)
    x[0, PLACE] = torch.arange(36.0)
    seen = observation_mirror(torch.device("cpu"), layout)(x, torch.tensor([True]))[0, PLACE]
    assert seen[:9].tolist() == [11, 10, 9, 14, 13, 12, 17, 16, 15]  # front left: those of the right one, reversed
    assert seen[18:21].tolist() == [29, 28, 27]
    assert seen[27:30].tolist() == [20, 19, 18]


def test_without_it_observations_and_random_numbers_are_as_before() -> None:
    plain, more = (make("dome", num_envs=3, scan=scan) for scan in (ScanOptions(), FEET))
    assert plain.spec.obs_dim == 212
    assert more.spec.obs_dim == 248
    assert len(more.spec.obs_scale) == 248
    assert set(more.spec.obs_scale[PLACE]) == {5.0}
    assert plain.config.sizes.draws == more.config.sizes.draws
    rest = [index for index in range(248) if index not in range(*PLACE.indices(248))]
    for _ in range(7):
        action = torch.full((3, 12), 0.1)
        assert torch.equal(plain.step(action).obs, more.step(action).obs[:, rest])


def test_a_real_robot_measures_it_with_the_errors_of_the_scan() -> None:
    quiet = dict.fromkeys(("spin_noise", "tilt_noise", "heading_noise", "joint_noise", "speed_noise"), 0.0)
    options: dict[str, Any] = {"robot": "go1_real", "scan": FEET, "num_envs": 20}
    env = make("flat", reality=RealityOptions(scan_noise=0.1, history=2, **quiet), **options)
    layout = parkour_layout(is_real=True, history=2, has_foot_scan=True)
    names = {part["name"]: slice(part["start"], part["start"] + part["size"]) for part in layout.observation()}
    assert env.spec.obs_dim == layout.obs_dim
    assert names["foot scan"] == PLACE
    seen = env.step(torch.zeros(20, 12)).next_obs
    error = seen[:, PLACE] - seen[:, names["true foot scan"]]
    assert 0.09 < error.abs().max() <= 0.1 + 1e-6
    assert error.std(0).min() > 0.02  # every number has an error of its own
    assert torch.equal(seen[:, names["true foot scan"]], only(env).episode.foot_scan)
    assert make("flat", privileged="critic", **options).spec.actor_dim == 216 + 3 * 41


def test_layouts_of_all_sizes_are_recognized() -> None:
    for is_real in (False, True):
        for is_privileged in (False, True):
            layout = parkour_layout(is_real=is_real, is_privileged=is_privileged, history=3, has_foot_scan=True)
            assert layout_of(layout.obs_dim, 12, 3, has_foot_scan=True) == layout
            assert layout_of(layout.obs_dim, 12, 3) is None
    assert layout_of(212, 12) == PARKOUR
    assert layout_of(212, 12, has_foot_scan=True) is None


def test_a_checkpoint_restores_it_and_one_of_an_earlier_version_is_read() -> None:
    env = make("box-climb", num_envs=2, scan=FEET)
    for _ in range(3):
        env.step(torch.zeros(2, 12))
    state, expected = env.state_dict(), only(env).episode.foot_scan.clone()
    env.step(torch.ones(2, 12))
    env.load_state_dict(state)
    assert torch.equal(only(env).episode.foot_scan, expected)
    old = make("box-climb", num_envs=2)
    saved = old.state_dict()
    del saved["groups"][0]["episode"]["foot_scan"]
    old.load_state_dict(saved)
    assert old.step(torch.zeros(2, 12)).obs.shape == (2, 212)


@pytest.mark.parametrize("robot", ["go1", "go1_real"])
def test_a_policy_that_sees_it_says_so(robot: str) -> None:
    words = ["preset=parkour/flat_cpu", f"robot={robot}", "scan.feet=true", "privileged=none"]
    config = compose(TrainConfig, words)
    env = make("flat", num_envs=1, robot=robot, privileged="none", scan=FEET)
    spec = {"obs_dim": env.spec.obs_dim, "action_dim": 12, "tasks": ["flat"]}
    state = {"spec": spec, "config": to_plain(config), "iteration": 1, "frames": 1, "seconds": 1.0}
    info = describe(config, layout_of_actor(config), state, Path("nowhere/checkpoint.pt"))
    assert {part["name"]: (part["start"], part["size"]) for part in info.observation}["foot scan"] == (180, 36)
    assert info.worlds["scan"]["feet"] is True
