"""The merge by place: an action is valued by what the picture shows at its target."""

import math

import pytest
import torch
from torch.testing import assert_close

from polytask.errors import UserError
from polytask.mtopt.config.network import CameraConfig, NetworkConfig
from polytask.mtopt.networks import QNetwork
from polytask.mtopt.networks.camera import camera_matrix, destination, project

POSE = torch.tensor([[0.15, 0.6, 0.0]])


def move(x=0.0, y=0.0, turn=0.0):
    """Make an action that moves, and turns the hand by half of `turn`."""
    return torch.tensor([x, y, 0.0, math.sin(turn), math.cos(turn), 0.0, 0.0, 0.0])


def network(**options):
    return QNetwork(NetworkConfig("small", **options), 2).eval()


def score(q, image, action, pose=POSE):
    zero = torch.zeros(1)
    with torch.no_grad():
        return q(image, zero, zero + 0.18, zero.long(), action.view(1, -1, 8), pose)


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
    # Group normalization lets a little of any change show everywhere.
    assert change[0] > 10 * change[1]


def test_the_same_place_reached_from_elsewhere_is_read_alike():
    q = network(camera=CameraConfig(reach=0.1))
    image = torch.randint(0, 256, (1, 64, 64, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    seen = q.trunk.image_part(image)

    def read(pose, action):
        target = destination(pose, action.view(1, 1, 8), q.trunk.camera, q.trunk.action)
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
