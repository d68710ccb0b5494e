"""The Go1's model has the parameters of the real robot, and its state is read in the right frames."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from polytask.robots.go1 import DEFAULT, HIGH, LOW
from polytask.scenes import compile_scene


@pytest.fixture(scope="module")
def model() -> mujoco.MjModel:
    return compile_scene("parkour", "go1.xml")


def test_masses_limits_and_motors(model: mujoco.MjModel) -> None:
    assert model.body_mass.sum() == pytest.approx(11.309932)
    assert model.body("trunk").mass[0] == pytest.approx(4.801)  # with the camera's mount
    assert model.body("trunk").ipos == pytest.approx([0.0116053, 0.0044222, 0.0001067], abs=1e-6)
    assert model.body("FL_calf").mass[0] == pytest.approx(0.158015 + 0.06)  # with the foot
    names = [f"{leg}_{part}" for leg in ("FL", "FR", "RL", "RR") for part in ("hip", "thigh", "calf")]
    assert [model.actuator(index).name for index in range(model.nu)] == names
    joints = [model.joint(name) for name in names]
    assert [int(joint.qposadr[0]) for joint in joints] == list(range(7, 19))
    assert np.array([joint.range for joint in joints]) == pytest.approx(np.array([LOW, HIGH]).T)
    assert model.actuator_forcerange == pytest.approx(np.tile([-33.5, 33.5], (12, 1)))
    assert model.actuator_gainprm[:, 0].tolist() == [50.0] * 12
    assert model.actuator_biasprm[:, :3].tolist() == [[0.0, -50.0, -3.0]] * 12
    assert model.opt.timestep == 0.005
    assert model.opt.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST


def test_robot_touches_terrain_but_not_itself(model: mujoco.MjModel) -> None:
    terrain = np.arange(model.ngeom) < model.body_geomnum[0]
    solid = (model.geom_contype | model.geom_conaffinity) > 0
    assert (model.geom_contype[terrain] == 0).all()
    assert (model.geom_conaffinity[terrain] == 1).all()
    assert (model.geom_conaffinity[~terrain] == 0).all()
    kinds = {mujoco.mjtGeom(kind) for kind in model.geom_type[~terrain & solid]}
    assert kinds == {mujoco.mjtGeom.mjGEOM_SPHERE, mujoco.mjtGeom.mjGEOM_CAPSULE}
    assert (model.geom_priority[~terrain & solid] == 1).all()


def test_feet_carry_the_weight_of_a_standing_robot(model: mujoco.MjModel) -> None:
    spec_model = model.__copy__()
    spec_model.geom_pos[0], spec_model.geom_quat[0], spec_model.geom_size[0] = (1, 0, -0.5), (1, 0, 0, 0), (2, 2, 0.5)
    data = mujoco.MjData(spec_model)
    mujoco.mj_setConst(spec_model, data)
    data.qpos[7:] = data.ctrl[:] = DEFAULT
    mujoco.mj_step(spec_model, data, nstep=800)
    force = data.sensordata[:12].reshape(4, 3)
    assert np.linalg.norm(force, axis=-1).sum() == pytest.approx(11.309932 * 9.81, rel=0.02)
    assert data.qpos[2] == pytest.approx(0.30, abs=0.01)
    assert data.sensordata[12:36] == pytest.approx(0.0)  # thighs and calves are clear of the ground
    assert data.sensordata[36:48] == pytest.approx(data.actuator_force, abs=1e-9)
