"""Geoms of all worlds as instances of few meshes."""

import mujoco
import numpy as np
import pytest

import polytask
from polytask.envs.render import places_of, pose_of
from polytask.viewer import shapes
from polytask.viewer.scene import Scene, grid, pieces_of, product, z_axis


@pytest.mark.parametrize("mesh", [shapes.box(), shapes.ball(), shapes.cylinder()])
def test_meshes_have_unit_size_and_look_outwards(mesh):
    np.testing.assert_allclose(mesh.vertices.max(0), [1, 1, 1], atol=1e-6)
    np.testing.assert_allclose(mesh.vertices.min(0), [-1, -1, -1], atol=1e-6)
    a, b, c = (mesh.vertices[mesh.faces[:, corner]] for corner in range(3))
    volume = np.einsum("ij,ij->i", a, np.cross(b, c)) / 6
    assert (volume >= -1e-6).all()
    expected = {12: 8.0, 76: 20 * np.sin(2 * np.pi / 20)}.get(len(mesh.faces), 4.0)
    assert volume.sum() == pytest.approx(expected, rel=0.05)


def test_a_capsule_is_a_cylinder_with_two_balls():
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><geom type='capsule' size='.1 .3'/>"
        "<geom type='ellipsoid' size='.1 .2 .3'/></worldbody></mujoco>"
    )
    pieces = pieces_of(model, 0)
    assert [(piece.mesh, piece.along) for piece in pieces] == [("cylinder", 0), ("ball", -0.3), ("ball", 0.3)]
    assert pieces[0].scale == (0.1, 0.1, 0.3)
    assert pieces_of(model, 1)[0].scale == (0.1, 0.2, 0.3)


def test_a_mesh_is_drawn_with_its_triangles():
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><asset><mesh name='m' vertex='0 0 0 1 0 0 0 1 0 0 0 1'/></asset>"
        "<worldbody><geom type='mesh' mesh='m'/></worldbody></mujoco>"
    )
    (piece,) = pieces_of(model, 0)
    assert piece.mesh == "mesh 0"
    assert shapes.mesh_of(model, 0).faces.max() < len(shapes.mesh_of(model, 0).vertices) == 4


def test_quaternions():
    rng = np.random.default_rng(0)
    a, b = (value / np.linalg.norm(value, axis=1, keepdims=True) for value in rng.normal(size=(2, 5, 4)))
    for one, other, both in zip(a, b, product(a, b), strict=True):
        expected = np.zeros(4)
        mujoco.mju_mulQuat(expected, one, other)
        np.testing.assert_allclose(both, expected)
        matrix = np.zeros(9)
        mujoco.mju_quat2Mat(matrix, one)
        np.testing.assert_allclose(z_axis(one[None])[0], matrix.reshape(3, 3)[:, 2])


def test_worlds_of_a_grid_do_not_overlap():
    size = np.array([2.0, 1.0])
    offsets = grid(7, size)
    assert offsets.shape == (7, 3)
    for one in range(7):
        for other in range(one):
            assert (np.abs(offsets[one] - offsets[other])[:2] >= size - 1e-6).any()
    np.testing.assert_allclose((offsets.max(0) + offsets.min(0)) / 2, 0, atol=1e-6)


def test_poses_are_those_of_mujoco():
    with polytask.make(tasks=["drawer-open", "reach"], num_envs=4, copy=False) as env:
        scene = Scene(env)
        for _ in range(5):
            env.step(env.task[:, None] * 2.0 - 1.0 + 0 * env.obs[:, :4])
        geoms = scene.read()
        model, pose = scene.worlds[3].model, pose_of(env, "reach", 1)
        data = mujoco.MjData(model)
        data.qpos[:], data.mocap_pos[:], data.mocap_quat[:] = pose.qpos, pose.mocap_pos, pose.mocap_quat
        mujoco.mj_forward(model, data)
        own = slice(-model.ngeom, None)
        np.testing.assert_allclose(geoms.pos[own], data.geom_xpos + scene.offsets[3], atol=1e-5)
        matrix = np.zeros(9)
        for quat, expected in zip(geoms.quat[own], data.geom_xmat, strict=True):
            mujoco.mju_quat2Mat(matrix, quat.astype(float))
            np.testing.assert_allclose(matrix, expected, atol=1e-5)


def test_what_stands_still_is_told_from_what_moves():
    with polytask.make(tasks=["drawer-open"], num_envs=2, copy=False) as env:
        scene = Scene(env)
        before = scene.read()
        env.reset()  # the drawer, whose case is a mocap body, is elsewhere
        for _ in range(3):
            env.step(env.obs[:, :4] * 0 + 1.0)
        after = scene.read()
        for instances in scene.instances:
            moved = (before.pos[instances.geom] != after.pos[instances.geom]).any(-1)
            assert not moved.any() or not instances.is_still
        names = [scene.worlds[0].model.geom(geom).name for geom in np.flatnonzero(~scene.worlds[0].still())]
        assert "goal" in names


def test_every_terrain_has_the_tile_of_its_world():
    with polytask.make(tasks=["box-climb"], num_envs=2, levels="hard", copy=False) as env:
        scene = Scene(env)
        easy, hard = (world.model.geom_size for world in scene.worlds)
        assert not np.array_equal(easy, hard)  # levels 0 and 1
        assert scene.floor is None
        assert all((scene.read().pos[instances.geom][:, 2] > -5).all() for instances in scene.instances)
        np.testing.assert_allclose(scene.centre(1) - scene.offsets[1], env.groups[0].batch.qpos[1, :3], atol=1e-6)


def test_textures_give_their_mean_colour():
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><asset><texture name='t' type='cube' builtin='flat' rgb1='.2 .4 .6' rgb2='.2 .4 .6' width='8'"
        " height='8'/>"
        "<material name='m' texture='t' rgba='1 1 1 .5'/></asset>"
        "<worldbody><geom size='.1' material='m'/><geom size='.1' rgba='.1 .2 .3 1'/></worldbody></mujoco>"
    )
    np.testing.assert_allclose(shapes.colours(model), [[0.2, 0.4, 0.6, 0.5], [0.1, 0.2, 0.3, 1]], atol=0.01)


def test_places_are_in_the_order_of_the_worlds():
    with polytask.make(tasks=["reach", "drawer-open", "push"], num_envs=6, copy=False) as env:
        names = [place.part.task.name for place in places_of(env)]
        assert names == ["reach"] * 2 + ["drawer-open"] * 2 + ["push"] * 2
