"""The merge by place: the camera's geometry against the scene's, and that an action is judged by where it leads."""

import math

import pytest
import torch
from torch.testing import assert_close

from polytask.errors import UserError
from polytask.mtopt.config.network import CameraConfig, NetworkConfig
from polytask.mtopt.config.world import WorldConfig
from polytask.mtopt.networks import QNetwork, seed_zero
from polytask.mtopt.networks.camera import camera_matrix, destination, grid, project, turned
from polytask.mtopt.world import BinWorld, layout
from polytask.scenes.bins import compile_bins

POSE = torch.tensor([[0.15, 0.6, 0.0]])


def move(x=0.0, y=0.0, turn=0.0):
    """Make an action that moves, and turns the hand by half of `turn`."""
    return torch.tensor([x, y, 0.0, math.sin(turn), math.cos(turn), 0.0, 0.0, 0.0])


def network(**options):
    return QNetwork(NetworkConfig("small", **options), 2, seed_zero()).eval()


def score(q, image, action, pose=POSE):
    zero = torch.zeros(1)
    with torch.no_grad():
        return q(image, zero, zero + 0.18, zero.long(), action.view(1, -1, 8), pose)


def test_places_are_projected_as_mujoco_does():
    import mujoco  # not before polytask, which tells it how to draw

    model = compile_bins(False)
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
    assert expected.abs().max() < 1  # all of it is in the picture


def test_limits_are_those_of_the_world():
    camera = CameraConfig()
    assert tuple(camera.low) == layout.HAND_LOW[:2] and tuple(camera.high) == layout.HAND_HIGH[:2]
    assert camera.yaw_limit == layout.YAW_LIMIT and camera.reach == WorldConfig().reach


def test_destination_by_hand():
    camera = CameraConfig(reach=0.1)
    action = torch.stack([move(0.5, -0.2, math.pi / 2), move(1.0, 1.0, -math.pi)])
    target = destination(torch.tensor([[0.25, 0.65, -1.0]]), action[None], camera)[0]
    # A turn counts half; the hand stays in its box and within a quarter turn.
    expected = torch.tensor([[0.285, 0.63, -1.0 + math.pi / 4], [0.285, 0.72, -math.pi / 2]])
    assert_close(target, expected)


def test_points_turn_with_the_hand():
    offsets = grid(2, 0.1)
    assert_close(offsets, torch.tensor([[-0.05, -0.05], [-0.05, 0.05], [0.05, -0.05], [0.05, 0.05]]))
    places = turned(offsets, torch.tensor([1.0, 2.0, math.pi / 2]))
    assert_close(places[1], torch.tensor([1.0 - 0.05, 2.0 - 0.05]))  # (-.05, .05) turned by a quarter


def test_an_action_is_judged_by_what_the_picture_shows_where_it_leads():
    q = network(camera=CameraConfig(reach=0.14))
    grey = torch.full((1, 64, 64, 3), 128, dtype=torch.uint8)
    u, v = ((project(camera_matrix(CameraConfig()), torch.tensor([0.15 + 0.07, 0.6, 0.02])) + 1) * 32).int().tolist()
    dotted = grey.clone()
    dotted[:, v - 1 : v + 2, u - 1 : u + 2] = torch.tensor([255, 0, 0], dtype=torch.uint8)
    q.trunk.whole.weight.data.zero_()  # leave only what is read where the action leads
    q.trunk.hand.weight.data.zero_()
    actions = torch.stack([move(0.5), move(-0.9)])
    change = (score(q, dotted, actions) - score(q, grey, actions)).abs()[0]
    # Group normalisation lets a little of any change show everywhere.
    assert change[0] > 10 * change[1]


def test_the_same_place_reached_from_elsewhere_is_read_alike():
    q = network(camera=CameraConfig(reach=0.1))
    image = torch.randint(0, 256, (1, 64, 64, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    seen = q.trunk.image_part(image)

    def read(pose, action):
        target = destination(pose, action.view(1, 1, 8), q.trunk.camera)
        return q.trunk._read(seen.fine, target, torch.full((1,), 0.02))

    first = read(torch.tensor([[0.15, 0.6, 0.0]]), move(0.5, 0.0, 1.0))
    second = read(torch.tensor([[0.20, 0.6, 0.5]]), move(0.0, 0.0, 0.0))
    assert_close(first, second)
    assert not torch.allclose(first, read(torch.tensor([[0.15, 0.6, 0.0]]), move(0.5, 0.0, 0.0)))


def test_without_a_pose_there_is_an_error_and_an_unknown_one_shows():
    image = torch.zeros(1, 64, 64, 3, dtype=torch.uint8)
    with pytest.raises(UserError, match="needs the hand's pose"):
        score(network(), image, move(), pose=None)
    assert score(network(), image, move(), pose=torch.full((1, 3), torch.nan)).isnan().all()
    assert score(network(merge="added"), image, move(), pose=None).isfinite().all()


def test_a_camera_read_from_a_file_is_a_camera():
    assert NetworkConfig("small", camera={"reach": 0.2}).camera == CameraConfig(reach=0.2)


def test_actions_lead_where_the_network_looks():
    world = BinWorld(WorldConfig(num_envs=6, image_size=8, seed=3))
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        before = world.observe().pose
        action = torch.rand(6, 8, generator=generator) * 2 - 1
        action[:, 5:] = 0.0
        world.step(action)
        expected = destination(before, action[:, None], CameraConfig(reach=world.config.reach))[:, 0]
        assert_close(world.observe().pose, expected)


def test_places_are_found_in_full_precision_under_autocast() -> None:
    """A projection rounded to bfloat16 would be most of a pixel off: moves of a few millimetres would look alike."""
    matrix = camera_matrix(CameraConfig())
    place = torch.tensor([[0.5, -0.1, 0.02]]) + 0.002 * torch.arange(20)[:, None]
    exact = project(matrix, place)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(project(matrix, place), exact)
