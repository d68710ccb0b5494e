"""Parts whose height cannot change must not just touch: rounding would decide whether they rub against each other."""

from __future__ import annotations

import mujoco
import pytest
import torch

from polytask.envs.manipulation.task import Task
from polytask.envs.suites import SUITES
from polytask.envs.tasks import TASKS
from polytask.robots.sawyer import ROBOT
from polytask.scenes.merge import slim_scene

GRAZING = 1e-6  # metres; single precision resolves about 1e-7


@pytest.mark.parametrize("name", SUITES["mt50"])
def test_nothing_grazes_at_the_start(name: str) -> None:
    task = TASKS[name]
    assert isinstance(task, Task)
    model = slim_scene(task.scene, "sawyer.xml")
    data = mujoco.MjData(model)
    home = ROBOT.settle(model, task.start.hand)
    data.qpos[:], data.mocap_pos[:] = home.qpos, home.mocap_pos
    middle = (torch.tensor(task.start.low) + torch.tensor(task.start.high))[None].float() / 2
    placement = task.start.place(middle)
    for fixture, position in placement.fixtures.items():
        data.mocap_pos[int(model.body(fixture).mocapid[0])] = position[0].numpy()
    for joint, value in placement.joints.items():
        start = int(model.joint(joint).qposadr[0])
        data.qpos[start : start + value[0].numel()] = value[0].numpy()
    mujoco.mj_forward(model, data)
    free = {int(model.jnt_bodyid[joint]) for joint in range(model.njnt) if model.jnt_type[joint] == 0}
    for contact in data.contact:
        bodies = {int(model.geom_bodyid[geom]) for geom in contact.geom}
        if not bodies & free:  # a free body falls the last bit by itself
            assert abs(contact.dist) > GRAZING, [model.body(body).name for body in bodies]
