"""The real Go1 has the data sheet's motors, rotors and joints, and its legs hit each other."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
import torch

from polytask.robots import ROBOTS, LeggedRobot
from polytask.robots.go1 import DEFAULT
from polytask.scenes import compile_scene
from polytask.sim import BACKENDS, WarpSettings, make_batch


@pytest.fixture(scope="module")
def model() -> mujoco.MjModel:
    return compile_scene("parkour", "go1_real.xml")


def contacts(model: mujoco.MjModel, joints: np.ndarray) -> set[tuple[str, str]]:
    """Return the pairs of geoms that touch each other in a pose far above the ground."""
    data = mujoco.MjData(model)
    data.qpos[2], data.qpos[7:] = 5.0, joints
    mujoco.mj_forward(model, data)
    return {tuple(sorted(model.geom(index).name for index in contact.geom)) for contact in data.contact}


def test_motors_and_joints(model: mujoco.MjModel) -> None:
    assert model.actuator_forcerange[:, 1].tolist() == [23.7, 23.7, 35.55] * 4
    assert model.actuator_forcerange[:, 0].tolist() == [-23.7, -23.7, -35.55] * 4
    assert model.dof_armature.tolist() == [0.0] * 6 + [0.00403, 0.00403, 0.00906] * 4
    assert model.dof_frictionloss.tolist() == [0.0] * 6 + [0.2] * 12
    assert model.dof_damping.tolist() == [0.0] * 6 + [0.01] * 12
    robot = ROBOTS["go1_real"]
    assert isinstance(robot, LeggedRobot)
    assert robot.motors is not None
    assert robot.motors.torque * 4 == pytest.approx(model.actuator_forcerange[:, 1])


def test_everything_else_is_as_in_the_benchmark(model: mujoco.MjModel) -> None:
    plain = compile_scene("parkour", "go1.xml")
    for name in ("body_mass", "body_inertia", "body_ipos", "geom_size", "jnt_range", "actuator_gainprm", "geom_pos"):
        assert np.array_equal(getattr(model, name), getattr(plain, name)), name
    assert plain.npair == 0
    assert plain.dof_armature.tolist() == [0.0] * 18


def test_a_standing_robot_does_not_touch_itself(model: mujoco.MjModel) -> None:
    assert contacts(model, np.array(DEFAULT)) == set()
    assert contacts(model, np.array([0.0, 1.5, -2.69] * 4)) == set()  # crouching


def test_legs_that_meet_push_each_other_away_in_both_simulators() -> None:
    crossed, forces = torch.tensor(DEFAULT), []
    crossed[0], crossed[3] = -0.36, 0.36  # the front feet overlap by 16 mm
    for sim in BACKENDS:
        batch = make_batch(sim, compile_scene("parkour", "go1_real.xml"), 1, torch.device("cpu"), WarpSettings())
        qpos = torch.cat([torch.tensor([0.0, 0.0, 5.0, 1.0, 0.0, 0.0, 0.0]), crossed])[None]
        batch.reset(torch.ones(1, dtype=torch.bool), qpos, torch.zeros(1, 18))
        batch.ctrl.copy_(crossed)
        batch.step(1, refresh=False)
        forces.append(batch.sensordata[0, :36].view(12, 3).norm(dim=-1))
        assert batch.qvel[0, 6] > 0.1  # the left leg goes to the left,
        assert batch.qvel[0, 9] < -0.1  # the right one to the right
    assert forces[0].max() > 10.0
    torch.testing.assert_close(forces[0], forces[1], rtol=0.02, atol=0.1)


def test_legs_hit_each_other(model: mujoco.MjModel) -> None:
    crossed, plain = np.array(DEFAULT), compile_scene("parkour", "go1.xml")
    crossed[[0, 3]] = -0.55, 0.55  # the front legs swing inwards
    found = contacts(model, crossed)
    assert ("FL_foot", "FR_foot") in found or ("FL_calf", "FR_calf") in found
    assert contacts(plain, crossed) == set()
    folded = np.array(DEFAULT)
    folded[[1, 2, 7, 8]] = 1.6, -0.92, -0.3, -0.92  # the left front leg to the back, the rear one to the front
    assert any("FL" in first and "RL" in second for first, second in contacts(model, folded))
