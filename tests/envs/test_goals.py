"""Goals that a person moves while an episode runs."""

import pytest
import torch

import polytask
from polytask.envs.goals import MovableGoals
from polytask.errors import UserError


@pytest.fixture
def env():
    with polytask.make(tasks=["drawer-open", "reach", "push"], num_envs=6, copy=False) as env:
        yield env


def test_goals_on_fixtures_cannot_be_moved(env):
    goals = MovableGoals(env)
    assert [goals.can_move(world) for world in range(6)] == [False, False, True, True, True, True]
    with pytest.raises(UserError, match="cannot be moved"):
        goals.move(0, [0.0, 0.7, 0.1])


def test_a_moved_goal_is_observed_marked_and_rewarded_in_its_world_only(env):
    goals, before = MovableGoals(env), env.obs.clone()
    hand = before[3, :3].tolist()
    goals.move(3, hand)
    assert goals.position(3).tolist() == pytest.approx(hand)
    changed = (env.obs != before).any(-1).tolist()
    assert changed == [False, False, False, True, False, False]
    assert env.obs[3, -3:].tolist() == pytest.approx(hand)
    step = env.step(torch.zeros(6, 4))
    assert step.success.tolist() == [False, False, False, True, False, False]  # the hand is at the goal
    assert step.obs[3, -3:].tolist() == pytest.approx(hand)  # it stays there


def test_the_next_episode_has_a_goal_of_its_own(env):
    goals = MovableGoals(env)
    goals.move(2, [0.3, 0.9, 0.3])
    env.reset()
    assert goals.position(2).tolist() != pytest.approx([0.3, 0.9, 0.3])


def test_waypoints_of_parkour_cannot_be_moved():
    with polytask.make(tasks=["flat"], num_envs=2) as env:
        assert not MovableGoals(env).any()


@pytest.mark.gpu
def test_a_captured_step_sees_a_moved_goal():
    with polytask.make(tasks=["drawer-open", "reach", "push"], num_envs=6, device="cuda", copy=False) as env:
        action = torch.zeros(6, 4, device="cuda")
        for _ in range(3):
            env.step(action)
        goals, hand = MovableGoals(env), env.obs[3, :3].tolist()
        goals.move(3, hand)
        step = env.step(action)
        assert step.obs[3, -3:].tolist() == pytest.approx(hand)
        assert bool(step.success[3])
