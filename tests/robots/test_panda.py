"""The Panda has the published kinematics, follows its command upright, and reaches every position of the tasks."""

from __future__ import annotations

import itertools
import math

import mujoco
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import polytask
from polytask.envs.manipulation.task import Start
from polytask.envs.manipulation.tasks import TASKS
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.scripted import ScriptedPolicy
from polytask.robots import panda
from polytask.scenes import compile_scene
from polytask.sim import WarpSettings, make_batch
from polytask.sim.base import Batch
from polytask.sim.geometry import z_axis

BASE = (0.0, 0.11, 0.06)  # the arm faces along y from here
TCP = 0.045  # depth of the tool centre below the hand, as for the Sawyer

# Positions that the hand need not reach: they belong to a fixture that it touches elsewhere.
NOT_TOUCHED = {
    ("door-close", "object"),  # the middle of the cupboard; its door and handle are in front of it
    ("door-open", "object"),
    ("window-open", "target"),  # has the y of the frame; the handle is 9.5 cm in front of it
}


@pytest.fixture(scope="module")
def model() -> mujoco.MjModel:
    return compile_scene("puck", "panda.xml")


@pytest.fixture
def env() -> MultiTaskEnv:
    return polytask.make(tasks=["reach"], num_envs=1, robot="panda", stagger=False, threads=1)


def tilt(batch: Batch) -> Tensor:
    """Return the angle between the gripper's orientation and the one it should hold. (N,)"""
    cosine = batch.xquat[:, int(batch.model.body("gripper").id), 2].abs()
    return 2 * torch.acos(cosine.clamp(max=1.0))


def commanded(env: MultiTaskEnv) -> Tensor:
    batch = env.groups[0].batch
    return batch.mocap_pos[0, int(batch.model.body("mocap").mocapid[0])]


@pytest.mark.parametrize(
    ("joints", "forward", "up"),
    [
        ([0.0] * 7, 0.088, 0.333 + 0.316 + 0.384 - 0.107),
        ([0, 0, 0, -math.pi / 2, 0, math.pi / 2, math.pi / 4], 0.0825 + 0.384 + 0.088, 0.333 + 0.316 + 0.0825 - 0.107),
        ([0, math.pi / 2, 0, 0, 0, 0, 0], 0.316 + 0.384 - 0.107, 0.333 - 0.088),
    ],
    ids=["upright", "elbow bent", "lying"],
)
def test_flange_is_where_the_link_lengths_put_it(
    model: mujoco.MjModel, joints: list[float], forward: float, up: float
) -> None:
    data = mujoco.MjData(model)
    data.qpos[:7] = joints
    mujoco.mj_kinematics(model, data)
    assert data.body("gripper").xpos == pytest.approx([BASE[0], BASE[1] + forward, BASE[2] + up], abs=1e-6)


def test_published_masses_and_limits(model: mujoco.MjModel) -> None:
    masses = [4.970684, 0.646926, 3.228604, 3.587895, 1.225946, 1.666555, 0.735522]
    assert [model.body(f"link{index}").mass[0] for index in range(1, 8)] == pytest.approx(masses)
    ranges = np.array([model.joint(f"joint{index}").range for index in range(1, 8)])
    assert ranges[[0, 2, 4, 6]] == pytest.approx(np.tile([-2.8973, 2.8973], (4, 1)))
    assert ranges[[1, 3, 5]] == pytest.approx(np.array([[-1.7628, 1.7628], [-3.0718, -0.0698], [-0.0175, 3.7525]]))
    assert model.joint("left_finger").range == pytest.approx([0.0, 0.04])


def test_jacobian_is_mujocos(model: mujoco.MjModel) -> None:
    data = mujoco.MjData(model)
    data.qpos[:7] = [0.3, 0.4, -0.2, -2.0, 0.5, 2.2, -0.6]
    mujoco.mj_forward(model, data)
    position, rotation = np.zeros((3, model.nv)), np.zeros((3, model.nv))
    mujoco.mj_jacSite(model, data, position, rotation, model.site("hand").id)
    links = slice(model.body("link1").id, model.body("link1").id + 7)
    axes = z_axis(torch.from_numpy(data.xquat[links]))
    arms = torch.from_numpy(data.site("hand").xpos - data.xpos[links])
    assert_close(torch.linalg.cross(axes, arms).T, torch.from_numpy(position[:, :7]))
    assert_close(axes.T, torch.from_numpy(rotation[:, :7]))


def test_gravity_does_not_move_it(model: mujoco.MjModel) -> None:
    home = panda.settle(model, (0.2, 0.7, 0.15))
    data = mujoco.MjData(model)
    data.qpos[:9] = home.qpos[:9]
    data.ctrl[:7] = home.qpos[:7]
    data.ctrl[7:] = -1.0
    mujoco.mj_step(model, data, nstep=200)
    assert data.qpos[:7] == pytest.approx(home.qpos[:7], abs=1e-4)


def test_command_moves_by_a_centimetre_within_the_box_and_near_the_hand(model: mujoco.MjModel) -> None:
    batch = make_batch("cpu", model, 2, torch.device("cpu"), WarpSettings())
    start = torch.tensor([[0.0, 0.6, 0.2], [0.0, 0.6, 0.2]])
    panda.reach(batch, start)
    command = batch.mocap_pos[:, int(model.body("mocap").mocapid[0])]
    command.copy_(start)
    low, high = torch.tensor([[-0.5, 0.4, 0.05]] * 2), torch.tensor([[0.5, 1.0, 0.5], [0.5, 1.0, 0.22]])
    action = torch.tensor([[1.0, -0.5, 1.0, 0.3], [0.0, 0.0, 1.0, -1.0]])
    panda.act(batch, action, low, high)
    assert_close(command, torch.tensor([[0.01, 0.595, 0.21], [0.0, 0.6, 0.21]]))
    assert_close(batch.ctrl[:, 7:], action[:, 3:].expand(2, 2))
    for _ in range(20):  # the hand does not move, because the physics does not run
        panda.act(batch, action, low, high)
    assert_close(command, torch.tensor([[0.08, 0.52, 0.28], [0.0, 0.6, 0.22]]), atol=5e-4, rtol=0.0)


@pytest.mark.parametrize("direction", [(1, 0, 0), (0, 1, 0), (0, 0, -1), (-1, 1, 1)], ids=str)
def test_hand_follows_the_command_upright(env: MultiTaskEnv, direction: tuple[int, int, int]) -> None:
    batch, start = env.groups[0].batch, env.obs[0, :3].clone()
    moves = [torch.tensor([[*direction, -1.0]])] * 12 + [torch.tensor([[0.0, 0.0, 0.0, -1.0]])] * 25
    for move in moves:
        env.step(move)
        assert tilt(batch) < 0.02
    assert_close(env.obs[0, :3] - start, 0.12 * torch.tensor(direction), atol=2e-3, rtol=0.0)


def test_command_does_not_wind_up_against_the_table(env: MultiTaskEnv) -> None:
    """The hand rises as soon as it is commanded to, no matter how long it was pushed down."""
    batch, low, high = env.groups[0].batch, torch.tensor([[-0.5, 0.4, -0.5]]), torch.tensor([[0.5, 1.0, 0.5]])
    height = batch.site_xpos[:, int(batch.model.site("hand").id), 2]
    for _ in range(80):
        panda.act(batch, torch.tensor([[0.0, 0.0, -1.0, 0.0]]), low, high)
        batch.step(5)
    assert height == pytest.approx(TCP, abs=5e-3)  # the fingers touch the table
    assert tilt(batch) < 0.15
    for _ in range(20):
        panda.act(batch, torch.tensor([[0.0, 0.0, 1.0, 0.0]]), low, high)
        batch.step(5)
    assert height > TCP + 0.07


def test_positive_effort_closes(env: MultiTaskEnv) -> None:
    state = env.groups[0].robot_state
    assert env.obs[0, 3] > 0.999
    for _ in range(30):
        env.step(torch.tensor([[0.0, 0.0, 0.0, 1.0]]))
    assert env.obs[0, 3] < 0.25
    assert_close(state.left_pad - state.hand, state.hand - state.right_pad, atol=1e-4, rtol=0.0)  # stays centred
    for _ in range(30):
        env.step(torch.tensor([[0.0, 0.0, 0.0, -1.0]]))
    assert env.obs[0, 3] > 0.999


def test_is_read_as_the_sawyer_is(env: MultiTaskEnv) -> None:
    state = env.groups[0].robot_state
    assert_close(state.tcp - state.hand, torch.tensor([[0.0, 0.0, -TCP]]), atol=1e-4, rtol=0.0)
    assert_close(state.left_pad - state.hand, torch.tensor([[0.0, 0.047, 0.0]]), atol=1e-3, rtol=0.0)
    assert_close(state.right_pad - state.hand, torch.tensor([[0.0, -0.047, 0.0]]), atol=1e-3, rtol=0.0)


@pytest.mark.parametrize("name", TASKS)
def test_starts_at_rest_where_the_task_says(name: str) -> None:
    task = TASKS[name]
    home = panda.settle(compile_scene(task.scene, "panda.xml"), task.start.hand)
    x, y, z = task.start.hand
    assert home.tcp == pytest.approx([x, y, z - TCP], abs=1e-3)


def corners(start: Start) -> Tensor:
    return torch.tensor(sorted(set(itertools.product(*zip(start.low, start.high, strict=True)))))


def hands(name: str) -> dict[str, Tensor]:
    """Return hand positions, within limits, that have the tool centre at goals and objects. name -> (C, 3)"""
    task = TASKS[name]
    placement = task.start.place(corners(task.start))
    points = {"target": placement.target, "object": placement.obj_init}
    low, high = torch.tensor(task.hand_low), torch.tensor(task.hand_high)
    above = {part: torch.clamp(point + torch.tensor([0.0, 0.0, TCP]), low, high) for part, point in points.items()}
    return {part: point for part, point in above.items() if (name, part) not in NOT_TOUCHED}


def test_every_corner_of_every_range_is_within_reach(model: mujoco.MjModel) -> None:
    parts = [(name, part, point) for name in TASKS for part, point in hands(name).items()]
    points, index = torch.unique(torch.cat([point for *_, point in parts]), dim=0, return_inverse=True)
    batch = make_batch("cpu", model, len(points), torch.device("cpu"), WarpSettings())
    panda.reach(batch, points)
    gap = torch.linalg.vector_norm(batch.site_xpos[:, int(model.site("hand").id)] - points, dim=-1)
    labels = [f"{name} {part}" for name, part, point in parts for _ in point]
    worst = {label: float(gap[row]) for label, row in zip(labels, index.tolist(), strict=True) if gap[row] > 0.01}
    assert worst == {}
    assert tilt(batch).max() < 0.01


def test_scripted_experts_solve_tasks_of_each_kind() -> None:
    # Grip, pull off, lift, hook, push, press, use a tool.
    names = [
        "pick-place",
        "disassemble",
        "lever-pull",
        "door-open",
        "drawer-close",
        "button-press-topdown",
        "stick-push",
    ]
    env = polytask.make(tasks=names, num_envs=28, robot="panda", episode_length=500, stagger=False, threads=1)
    policy, solved = ScriptedPolicy(env), torch.zeros(28, dtype=torch.bool)
    for _ in range(140):
        solved |= env.step(policy(env.obs, env.task)).success
    assert solved.view(7, 4).float().mean(-1).tolist() == [1.0] * 7


def test_resumed_run_equals_an_unbroken_one(env: MultiTaskEnv) -> None:
    """The command leads the hand by centimetres; a resumed run must restore this lead."""
    move = torch.tensor([[1.0, 0.5, 0.2, 1.0]])
    for _ in range(5):
        env.step(move)
    saved = env.state_dict()
    expected = [env.step(move).obs.clone() for _ in range(5)]
    env.reset()
    env.load_state_dict(saved)
    assert_close(commanded(env), torch.tensor([0.05, 0.625, 0.21]))
    for obs in expected:
        assert torch.equal(env.step(move).obs, obs)


@pytest.mark.slow
def test_both_simulators_agree_over_fifty_steps() -> None:
    """The robot agrees to 0.1 mm; the puck, which rocks on four contacts, to 0.5 mm."""
    envs = [
        polytask.make(tasks=["reach"], num_envs=1, robot="panda", sim=sim, stagger=False, seed=3, threads=1)
        for sim in ("cpu", "warp")
    ]
    generator = torch.Generator().manual_seed(0)
    for step in range(50):
        if step % 10 == 0:
            action = torch.rand(1, 4, generator=generator) * 2 - 1
        cpu, warp = (env.step(action).obs for env in envs)
        assert_close(cpu[:, :4], warp[:, :4], atol=1e-4, rtol=0.0)
        assert_close(cpu, warp, atol=5e-4, rtol=0.0)
