"""Worlds, policy and clock of the viewer, without a page."""

import numpy as np
import pytest
import torch

import polytask
from polytask.viewer.session import MEMORY, Clock, Session


@pytest.fixture
def session():
    env = polytask.make(tasks=["reach", "push"], num_envs=4, episode_length=10, stagger=False, copy=False)
    session = Session(env, lambda obs, task: torch.full((4, 4), 0.5))
    yield session
    session.close()


def test_a_clock_keeps_parts_of_steps():
    clock = Clock(rate=80, speed=0.25)
    assert [clock.due(0.03) for _ in range(4)] == [0, 1, 0, 1]  # 0.6 steps each


def test_speed_changes_what_is_due():
    clock = Clock(rate=50)
    assert clock.due(0.1) == 5
    clock.speed = 2.0
    assert clock.due(0.1) == 10


def test_time_passes_at_the_control_rate(session):
    assert session.clock.rate == 80
    session._now = lambda: 0.0  # a fast machine
    assert session.advance(0.05) == 4
    assert session.steps == 4
    assert session.env.episode_step.tolist() == [4] * 4


def test_a_slow_machine_skips_steps_instead_of_falling_behind(session):
    wall = iter(range(100))
    session._now = lambda: float(next(wall))  # every look at the clock takes a second
    assert session.advance(1.0) == 1
    assert session.advance(0.0) == 0  # the steps that were left out are forgotten


def test_time_stands_still_while_paused_but_single_steps_work(session):
    session.is_paused = True
    assert session.advance(10.0) == 0
    session.step()
    assert session.steps == 1


def test_numbers_are_those_of_the_steps(session):
    rewards = []
    real = session.env.step
    session.env.step = lambda action: rewards.append(real(action).reward.clone()) or session.env._step
    for _ in range(3):
        session.step()
    numbers = session.numbers()
    assert numbers.step.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(numbers.reward, torch.stack(rewards).numpy())
    assert numbers.action.shape == (3, 4, 4)
    assert (numbers.action == 0.5).all()


def test_actions_are_shown_as_they_act(session):
    session.policy = lambda obs, task: torch.full((4, 4), 7.0)
    session.step()
    assert (session.numbers().action == 1.0).all()


def test_the_numbers_are_forgotten_after_a_while(session):
    session._rows = [(0, np.zeros(4), np.zeros(4), np.zeros((4, 4)))] * MEMORY
    session.step()
    assert len(session.numbers().step) == MEMORY
    assert session.numbers().step[-1] == 1


def test_captions_follow_every_world_and_restart_with_its_episode(session):
    session.goals.move(1, session.env.obs[1, :3].tolist())
    session.policy = lambda obs, task: torch.zeros(4, 4)
    session.step()
    assert [caption.task for caption in session.captions] == ["reach", "reach", "push", "push"]
    assert [caption.score for caption in session.captions] == [0, 1, 0, 0]
    for _ in range(9):  # the episode ends
        session.step()
    assert [caption.step for caption in session.captions] == [0] * 4
    assert session.captions[1].score == 0


def test_a_reset_starts_new_episodes_and_empties_the_plots(session):
    before = session.env.obs.clone()
    session.step()
    session.reset()
    assert session.env.episode_step.tolist() == [0] * 4
    assert not torch.equal(session.env.obs[:, -3:], before[:, -3:])
    assert len(session.numbers().step) == 0
