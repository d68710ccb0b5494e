"""Scenes of the same shape are merged into one model without mixing up their parts."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from polytask.envs.suites import SUITES
from polytask.envs.tasks import TASKS
from polytask.robots import ROBOTS, Robot
from polytask.scenes import compile_scene
from polytask.scenes.merge import MergedScene, merge_scenes, shape_of, slim_scene

ARMS = [robot.file for robot in ROBOTS.values() if isinstance(robot, Robot)]
SCENES = tuple(dict.fromkeys(TASKS[task].scene for task in SUITES["mt50"]))


def merged_scenes(robot_file: str) -> list[MergedScene]:
    shapes: dict[object, list[str]] = {}
    for scene in SCENES:
        shapes.setdefault(shape_of(scene, robot_file), []).append(scene)
    return [merge_scenes(tuple(scenes), robot_file) for scenes in shapes.values()]


@pytest.mark.parametrize("robot_file", ARMS)
def test_mt50_needs_seven_models(robot_file: str) -> None:
    """Free objects, slides, hinges, plates (two slides), and three scenes with two moving objects."""
    sizes = sorted(len(merged.layouts) for merged in merged_scenes(robot_file))
    assert sizes == [1, 1, 1, 2, 5, 8, 15]


@pytest.mark.parametrize("robot_file", ARMS)
def test_each_part_of_a_scene_has_a_place_of_its_own_kind(robot_file: str) -> None:
    for merged in merged_scenes(robot_file):
        whole = merged.model
        for scene, layout in merged.layouts.items():
            own = layout.model
            for places in (layout.bodies, layout.geoms, layout.sites, layout.mocaps):
                assert len(set(places.tolist())) == len(places), scene
            np.testing.assert_array_equal(whole.body_parentid[layout.bodies], layout.bodies[own.body_parentid])
            np.testing.assert_array_equal(whole.geom_bodyid[layout.geoms], layout.bodies[own.geom_bodyid])
            np.testing.assert_array_equal(whole.site_bodyid[layout.sites], layout.bodies[own.site_bodyid])
            np.testing.assert_array_equal(whole.jnt_bodyid, layout.bodies[own.jnt_bodyid])
            for field in ("type", "contype", "conaffinity", "condim", "priority"):
                name = f"geom_{field}"
                np.testing.assert_array_equal(getattr(whole, name)[layout.geoms], getattr(own, name))
            is_mocap = own.body_mocapid >= 0
            np.testing.assert_array_equal(
                whole.body_mocapid[layout.bodies[is_mocap]], layout.mocaps[own.body_mocapid[is_mocap]]
            )


@pytest.mark.parametrize("robot_file", ARMS)
def test_joint_positions_have_the_same_places_in_all_models(robot_file: str) -> None:
    """States, starts and recordings can be copied between a scene, its slim form and the merged model."""
    for merged in merged_scenes(robot_file):
        for scene, layout in merged.layouts.items():
            for model in (layout.model, compile_scene(scene, robot_file)):
                for field in ("jnt_type", "jnt_qposadr", "jnt_dofadr", "dof_parentid", "jnt_limited"):
                    np.testing.assert_array_equal(getattr(merged.model, field), getattr(model, field))


@pytest.mark.parametrize("scene", ["puck", "assembly", "drawer", "coffee"])
def test_a_slim_scene_moves_like_the_whole(scene: str) -> None:
    whole, slim = compile_scene(scene, "sawyer.xml"), slim_scene(scene, "sawyer.xml")
    assert slim.nbody < whole.nbody
    assert slim.ngeom < whole.ngeom
    assert slim.nlight == slim.ncam == 0
    ends = []
    for model in (whole, slim):
        data = mujoco.MjData(model)
        data.mocap_pos[int(model.body("mocap").mocapid[0])] = (0.0, 0.6, 0.2)
        mujoco.mj_step(model, data, nstep=200)
        ends.append(data.qpos.copy())
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-4)  # contact amplifies rounding errors


def test_a_fused_body_leaves_a_mark_where_it_was() -> None:
    whole, layout = (
        compile_scene("coffee", "sawyer.xml"),
        merge_scenes(("coffee",), "sawyer.xml").layouts["coffee"],
    )
    data = mujoco.MjData(whole)
    slim = mujoco.MjData(layout.model)
    mujoco.mj_forward(whole, data)
    mujoco.mj_forward(layout.model, slim)
    fused = [whole.body(index).name for index in range(whole.nbody) if whole.body(index).name]
    fused = [name for name in fused if layout.body(name) is None]
    assert "table" in fused
    for name in fused:
        np.testing.assert_allclose(slim.site(layout.mark(name)).xpos, data.body(name).xpos, atol=1e-9)


def test_an_unknown_body_is_an_error_that_names_it() -> None:
    layout = merge_scenes(("puck",), "sawyer.xml").layouts["puck"]
    with pytest.raises(KeyError, match="no body named 'spoon'"):
        layout.body("spoon")
