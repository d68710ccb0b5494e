"""The camera's geometry against the scene's."""

import math

import pytest
import torch
from torch.testing import assert_close

from polytask.errors import UserError
from polytask.mtopt.config.action import ActionConfig
from polytask.mtopt.config.network import CameraConfig
from polytask.mtopt.config.world import WorldConfig
from polytask.mtopt.networks.camera import camera_matrix, destination, grid, project, turn_grid
from polytask.mtopt.world import BinWorld, layout
from polytask.scenes.mtopt import compile_mtopt


def move(x=0.0, y=0.0, turn=0.0):
    """Make an action that moves, and turns the hand by half of `turn`."""
    return torch.tensor([x, y, 0.0, math.sin(turn), math.cos(turn), 0.0, 0.0, 0.0])


def test_places_are_projected_as_mujoco_does():
    import mujoco  # not before polytask, which sets its renderer

    model = compile_mtopt(False)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    camera = model.camera("shoulder").id
    place = torch.tensor([[0.165, 0.6, 0.02], [0.05, 0.5, 0.0], [-0.2, 0.7, 0.2]])
    local = (place.double() - torch.from_numpy(data.cam_xpos[camera])) @ torch.from_numpy(
        data.cam_xmat[camera].reshape(3, 3)
    )
    focal = 1 / math.tan(math.radians(model.cam_fovy[camera]) / 2)
    # MuJoCo's cameras look along their negative z axis; v counts downwards.
    expected = torch.stack([local[:, 0], -local[:, 1]], -1) * focal / -local[:, 2:]
    assert_close(project(camera_matrix(CameraConfig()), place), expected.float(), atol=1e-3, rtol=0)
    assert expected.abs().max() < 1  # all places are in the picture


def test_limits_are_those_of_the_world():
    camera = CameraConfig()
    assert tuple(camera.low) == layout.HAND_LOW[:2] and tuple(camera.high) == layout.HAND_HIGH[:2]
    assert camera.yaw_limit == layout.YAW_LIMIT and camera.reach == WorldConfig().reach


def test_destination_by_hand():
    camera = CameraConfig(reach=0.1)
    action = torch.stack([move(0.5, -0.2, math.pi / 2), move(1.0, 1.0, -math.pi)])
    target = destination(torch.tensor([[0.25, 0.65, -1.0]]), action[None], camera, ActionConfig())[0]
    # A turn counts half; the hand stays in its box and within a quarter turn.
    expected = torch.tensor([[0.285, 0.63, -1.0 + math.pi / 4], [0.285, 0.72, -math.pi / 2]])
    assert_close(target, expected)


def test_points_turn_with_the_hand():
    offsets = grid(2, 0.1)
    assert_close(offsets, torch.tensor([[-0.05, -0.05], [-0.05, 0.05], [0.05, -0.05], [0.05, 0.05]]))
    places = turn_grid(offsets, torch.tensor([1.0, 2.0, math.pi / 2]))
    assert_close(places[1], torch.tensor([1.0 - 0.05, 2.0 - 0.05]))  # (-.05, .05) turned by a quarter


def test_actions_lead_where_the_network_looks():
    world = BinWorld(WorldConfig(num_envs=6, image_size=8, seed=3))
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        before = world.observe().pose
        action = torch.rand(6, 8, generator=generator) * 2 - 1
        action[:, 5:] = 0.0
        world.step(action)
        expected = destination(before, action[:, None], CameraConfig(reach=world.config.reach), ActionConfig())[:, 0]
        assert_close(world.observe().pose, expected)


def test_places_are_found_in_full_precision_under_autocast():
    """A projection rounded to bfloat16 would be most of a pixel off: moves of a few millimetres would look alike."""
    matrix = camera_matrix(CameraConfig())
    place = torch.tensor([[0.5, -0.1, 0.02]]) + 0.002 * torch.arange(20)[:, None]
    exact = project(matrix, place)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(project(matrix, place), exact)


def test_every_bound_of_the_hand_must_be_in_order():
    CameraConfig(low=[0.1, 0.5], high=[0.1, 0.7]).check_together()
    with pytest.raises(UserError, match=r"low=\[-0.2, 0.8\] is not valid; it must be at most camera.high=\[0.2, 0.7\]"):
        CameraConfig(low=[-0.2, 0.8], high=[0.2, 0.7]).check_together("camera.")


def test_a_wide_picture_shows_more_at_its_sides():
    """The field of view is vertical: with twice the width, a place lies half as far from the middle."""
    place = torch.tensor([[0.165, 0.6, 0.02], [-0.2, 0.7, 0.2]])
    square, wide = (project(camera_matrix(CameraConfig(), aspect), place) for aspect in (1.0, 2.0))
    assert_close(wide[:, 0], square[:, 0] / 2)
    assert_close(wide[:, 1], square[:, 1])
