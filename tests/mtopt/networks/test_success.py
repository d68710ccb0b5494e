"""The detector's network."""

import torch
from torch.testing import assert_close

from polytask.mtopt.config.network import NetworkConfig
from polytask.mtopt.networks import DetectorNetwork


def test_detector_sees_every_view_and_the_task():
    network = DetectorNetwork(NetworkConfig("small", image_size=64), 3, views=2)
    outcome = torch.randint(0, 256, (1, 2, 64, 64, 3), dtype=torch.uint8)
    with torch.no_grad():
        base = network(outcome, torch.tensor([0]))
        for view in range(2):
            changed = outcome.clone()
            changed[:, view] = 0
            assert (network(changed, torch.tensor([0])) - base).abs() > 1e-5
        assert (network(outcome, torch.tensor([1])) - base).abs() > 1e-5
        assert (network(outcome.flip(1), torch.tensor([0])) - base).abs() > 1e-5
    assert base.shape == (1,) and abs(base.sigmoid().item() - 0.5) < 0.2


def test_all_tasks_at_once_are_as_one_by_one():
    network = DetectorNetwork(NetworkConfig("small", image_size=64), 3, views=2).eval()
    outcome = torch.randint(0, 256, (4, 2, 64, 64, 3), dtype=torch.uint8)
    with torch.no_grad():
        single = torch.stack([network(outcome, torch.full((4,), task)) for task in range(3)], 1)
        assert_close(network.all_tasks(outcome), single)
