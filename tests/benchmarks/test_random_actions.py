"""Random actions break nothing: no NaN, no diverged world, no object flung off the table."""

import pytest
import torch
from random_action_counts import REACH_HIGH, REACH_LOW, random_actions

import polytask
from polytask.sim.config import WarpSim


class Scripted:
    """An environment of three worlds that shows given object positions, one step after another."""

    def __init__(self, positions, reward=0.0):
        self.env = polytask.make(tasks=["push"], num_envs=3, episode_length=50, stagger=False, threads=1)
        self.spec, self.device, self.task = self.env.spec, self.env.device, self.env.task
        self.obs, self.groups = self.env.obs, self.env.groups
        self.positions, self.reward = positions, reward

    def step(self, action):
        step = self.env.step(action)
        step.next_obs[:, 4:7] = self.positions.pop(0)
        step.reward[:] = self.reward
        return step

    def pop_metrics(self):
        return self.env.pop_metrics()


def test_worlds_are_counted_once_however_often_their_object_is_out():
    inside, below, beside = (0.0, 0.6, 0.02), (0.0, 0.6, -0.21), (1.01, 0.6, 0.02)
    positions = [torch.tensor([inside, below, inside]), torch.tensor([inside, beside, inside])]
    counts = random_actions(Scripted(positions), steps=2)["push"]
    assert (counts.worlds, counts.out_of_reach, counts.nan, counts.diverged) == (3, 1, 0, 0)
    assert counts.farthest == pytest.approx(beside)


def test_the_bounds_themselves_are_within_reach():
    corners = torch.tensor([REACH_LOW, REACH_HIGH, REACH_LOW])
    assert random_actions(Scripted([corners]), steps=1)["push"].out_of_reach == 0


def test_nan_is_counted():
    positions = [torch.full((3, 3), 0.6), torch.full((3, 3), 0.6)]
    counts = random_actions(Scripted(positions, reward=float("nan")), steps=2)["push"]
    assert counts.nan == 6


def test_held_actions_carry_the_hand_farther():
    env = polytask.make(tasks=["reach"], num_envs=16, episode_length=1000, stagger=False, threads=1)
    travelled = []
    for hold in (1, 20):
        start = env.reset()[:, :3].clone()
        random_actions(env, steps=60, hold=hold)
        travelled.append(float((env.obs[:, :3] - start).norm(dim=-1).mean()))
    assert travelled[1] > 2 * travelled[0]


def test_steps_in_too_small_buffers_are_counted():
    sim = WarpSim(constraints_per_world=4)
    env = polytask.make(tasks=["push"], num_envs=2, sim=sim, episode_length=50, stagger=False, threads=1)
    with pytest.warns(RuntimeWarning, match="ran out of contact or constraint slots"):
        counts = random_actions(env, steps=3)["push"]
    assert (counts.overflow, counts.diverged, counts.nan) == (6, 6, 0)


def test_a_standing_cylinder_is_not_shot_away_in_single_precision():
    options = {"num_envs": 8, "sim": "warp", "episode_length": 500, "stagger": False, "threads": 1, "seed": 0}
    env = polytask.make(tasks=["coffee-pull"], **options)
    mug = env.obs[:, 4:7].clone()
    random_actions(env, steps=60)  # the hand stays far from the mug
    assert (env.obs[:, 4:7] - mug).norm(dim=-1).max() < 0.01


@pytest.mark.slow
def test_no_task_breaks_under_random_actions():
    env = polytask.make(suite="mt50", num_envs=8 * 50, episode_length=301, stagger=False)
    counts = random_actions(env, steps=300, hold=10)
    env.close()
    assert {task: one for task, one in counts.items() if one.nan or one.diverged or one.overflow} == {}
    flung = {task: one.out_of_reach for task, one in counts.items() if one.out_of_reach}
    assert flung == {}
