"""Bin picking: the margin of its reward is the cube's distance after the first step of an episode."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest
import torch
from torch import Tensor

import polytask
from polytask.envs.manipulation.task import Start
from polytask.envs.manipulation.tasks.bin_picking import reward
from polytask.envs.multi_task import MultiTaskEnv

INSIDE_THE_WALL = (-0.21, 0.75, 0.02, 0.12, 0.7, 0.0)
FREE = (-0.12, 0.70, 0.02, 0.12, 0.7, 0.0)


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch) -> MultiTaskEnv:
    episodes = count()

    def draw(start: Start, uniform: Tensor) -> Tensor:
        """Move the cubes by a millimetre from episode to episode."""
        return torch.tensor([INSIDE_THE_WALL, FREE]) - torch.tensor([0.0, 0.001, 0.0, 0.0, 0.0, 0.0]) * next(episodes)

    monkeypatch.setattr("polytask.envs.manipulation.worlds.draw", draw)
    return make()


def make() -> MultiTaskEnv:
    return polytask.make(tasks=["bin-picking"], num_envs=2, stagger=False, episode_length=4, threads=1, sim="cpu")


def actions(number: int) -> Tensor:
    return torch.rand(2, 4, generator=torch.Generator().manual_seed(number)) * 2 - 1


def test_the_margin_is_the_distance_after_the_first_step(env: MultiTaskEnv) -> None:
    s = env.groups[0].tasks[0].state
    env.step(actions(0))
    first = s.obj.clone()
    moved = (first - s.obj_init).norm(dim=-1)
    assert moved[0] > 0.002  # the wall has pushed the cube
    assert moved[1] < 1e-4
    step = env.step(actions(1))
    assert not torch.equal(s.obj, first)
    assert torch.equal(step.reward, reward(replace(s, first_obj=first))[0])
    difference = (step.reward - reward(replace(s, first_obj=s.obj_init))[0]).abs()
    assert difference[0] > 5e-5
    assert difference[1] < 1e-6


def test_every_episode_has_its_own_first_step(env: MultiTaskEnv) -> None:
    s = env.groups[0].tasks[0].state
    firsts = []
    for number in range(8):
        env.step(actions(number))
        if number in (0, 4):
            firsts.append(s.obj.clone())
    assert not torch.equal(firsts[0], firsts[1])
    assert torch.equal(s.first_obj, firsts[1])


def test_a_restored_episode_keeps_its_margin(env: MultiTaskEnv) -> None:
    for steps in (0, 2):  # before and after the first step
        env.reset()
        for number in range(steps):
            env.step(actions(number))
        other = make()
        other.load_state_dict(env.state_dict())
        assert torch.equal(other.step(actions(9)).reward, env.step(actions(9)).reward)
        assert torch.equal(other.groups[0].tasks[0].state.first_obj, env.groups[0].tasks[0].state.first_obj)


def test_a_checkpoint_without_the_first_step_uses_the_intended_start(env: MultiTaskEnv) -> None:
    env.step(actions(0))
    state = env.groups[0].tasks[0].state_dict()
    older = {name: value for name, value in state.items() if name not in ("first_obj", "is_new")}
    worlds = make().groups[0].tasks[0]
    worlds.load_state_dict(older)
    assert torch.equal(worlds.state.first_obj, state["obj_init"])
    assert not worlds.is_new.any()
