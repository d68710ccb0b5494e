"""The four terms of the parkour reward, computed by hand."""

from __future__ import annotations

import math

import torch
from torch.testing import assert_close

from polytask.envs.parkour.reward import collisions, energy, goal_velocity, heading, reward
from polytask.robots.go1 import Motion, Touch


def motion(**values: torch.Tensor) -> Motion:
    zero = torch.zeros(1)
    still = dict.fromkeys(("roll", "pitch", "yaw"), zero)
    still |= {name: torch.zeros(1, 3) for name in ("position", "velocity", "velocity_body", "spin_body")}
    still |= {name: torch.zeros(1, 12) for name in ("joints", "speeds")}
    return Motion(**{**still, **values})


def touch(**values: torch.Tensor) -> Touch:
    return Touch(**{"feet": torch.zeros(1, 4), "legs": torch.zeros(1, 8), "torques": torch.zeros(1, 12), **values})


def test_speed_towards_the_goal_counts_up_to_the_command() -> None:
    to_goal = torch.tensor([[3.0, 4.0]])  # unit vector (0.6, 0.8)
    command = torch.tensor([0.5])
    slow = motion(velocity=torch.tensor([[0.3, 0.1, 9.0]]))  # 0.18 + 0.08 towards it; vertical speed does not count
    assert_close(goal_velocity(slow, to_goal, command), torch.tensor([0.26 / 0.5]), atol=1e-5, rtol=0)
    fast = motion(velocity=torch.tensor([[1.0, 1.0, 0.0]]))
    assert_close(goal_velocity(fast, to_goal, command), torch.tensor([1.0]))
    away = motion(velocity=torch.tensor([[-0.5, 0.0, 0.0]]))
    assert_close(goal_velocity(away, to_goal, command), torch.tensor([-0.6]), atol=1e-5, rtol=0)


def test_heading_falls_off_with_the_angle_to_either_side() -> None:
    assert_close(heading(torch.tensor([0.0, 1.0, -2.0])), torch.tensor([1.0, math.exp(-1), math.exp(-2)]))


def test_energy_counts_power_put_in_but_not_taken_out() -> None:
    torques, speeds = torch.zeros(1, 12), torch.zeros(1, 12)
    torques[0, :3] = torch.tensor([2.0, -3.0, 5.0])
    speeds[0, :3] = torch.tensor([4.0, -1.0, -7.0])
    assert_close(energy(motion(speeds=speeds), touch(torques=torques)), torch.tensor([8.0 + 3.0]))


def test_thighs_and_calves_that_touch_are_counted() -> None:
    legs = torch.tensor([[0.0, 0.2, 0.05, 40.0, 0.0, 0.0, 0.0, 0.11]])
    assert_close(collisions(touch(legs=legs)), torch.tensor([3.0]))


def test_terms_are_weighted_by_the_step_and_their_sum_is_never_negative() -> None:
    to_goal, command, error = torch.tensor([[2.0, 0.0]]), torch.tensor([0.5]), torch.tensor([0.5])
    torques, speeds = torch.full((1, 12), 2.0), torch.full((1, 12), 3.0)  # 72 W
    walking = motion(velocity=torch.tensor([[0.4, 0.0, 0.0]]), speeds=speeds)
    earned = reward(walking, touch(torques=torques), to_goal, error, command)
    expected = 0.02 * (4.0 * 0.8 + math.exp(-0.5) - 0.0005 * 72)
    assert_close(earned, torch.tensor([expected]), atol=1e-5, rtol=0)
    # One scraping calf costs 0.2, more than a step can earn.
    scraping = touch(torques=torques, legs=torch.tensor([[0.0] * 7 + [1.0]]))
    assert_close(reward(walking, scraping, to_goal, error, command), torch.zeros(1))


def test_best_case_is_a_tenth_per_step() -> None:
    running = motion(velocity=torch.tensor([[1.0, 0.0, 0.0]]))
    earned = reward(running, touch(), torch.tensor([[5.0, 0.0]]), torch.zeros(1), torch.tensor([0.8]))
    assert_close(earned, torch.tensor([0.1]))
