"""The Sawyer moves, grips and is read as in Meta-World."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

import polytask
from polytask.envs.multi_task import MultiTaskEnv
from polytask.robots import sawyer
from polytask.scenes import compile_scene


@pytest.fixture
def env() -> MultiTaskEnv:
    return polytask.make(tasks=["reach"], num_envs=1, stagger=False, threads=1)


def commanded(env: MultiTaskEnv) -> torch.Tensor:
    batch = env.groups[0].batch
    return batch.mocap_pos[0, int(batch.model.body("mocap").mocapid[0])]


def test_full_action_moves_the_command_by_a_centimetre(env: MultiTaskEnv) -> None:
    assert_close(commanded(env), torch.tensor([0.0, 0.6, 0.2]))
    env.step(torch.tensor([[1.0, -1.0, 0.5, 0.0]]))
    assert_close(commanded(env), torch.tensor([0.01, 0.59, 0.205]))


def test_command_stays_in_the_tasks_box(env: MultiTaskEnv) -> None:
    for _ in range(60):
        env.step(torch.tensor([[1.0, -1.0, -1.0, 0.0]]))
    assert_close(commanded(env), torch.tensor([0.5, 0.4, 0.05]))


def test_positive_effort_closes(env: MultiTaskEnv) -> None:
    assert env.obs[0, 3] == 1.0
    for _ in range(20):
        env.step(torch.tensor([[0.0, 0.0, 0.0, 1.0]]))
    assert env.obs[0, 3] < 0.35
    for _ in range(20):
        env.step(torch.tensor([[0.0, 0.0, 0.0, -1.0]]))
    assert env.obs[0, 3] == 1.0


def test_tool_centre_is_below_the_hand_and_pads_are_beside_it(env: MultiTaskEnv) -> None:
    state = env.groups[0].robot_state
    assert_close(state.tcp - state.hand, torch.tensor([[0.0, 0.0, -0.045]]), atol=2e-3, rtol=0.0)
    assert_close(state.left_pad - state.hand, torch.tensor([[0.0, 0.047, 0.0]]), atol=4e-3, rtol=0.0)
    assert_close(state.right_pad - state.hand, torch.tensor([[0.0, -0.047, 0.0]]), atol=4e-3, rtol=0.0)


def test_settles_where_asked() -> None:
    model = compile_scene("puck", "sawyer.xml")
    home = sawyer.settle(model, (0.1, 0.5, 0.25))
    assert home.tcp == pytest.approx([0.1, 0.5, 0.205], abs=0.01)
    assert home.mocap_pos[int(model.body("mocap").mocapid[0])] == pytest.approx([0.1, 0.5, 0.25])
