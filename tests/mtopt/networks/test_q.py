"""The Q-network: sizes of the paper, samples, tasks, heads, precision."""

import pytest
import torch
from helpers.states import TASKS, poses, states
from torch.testing import assert_close

from polytask.errors import UserError
from polytask.mtopt.config.action import ActionConfig
from polytask.mtopt.config.network import MERGES, NetworkConfig
from polytask.mtopt.networks import QNetwork


def build_q(size, **options):
    return QNetwork(NetworkConfig(size, **options), TASKS)


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_paper_parameters_by_formula():
    norm = 2 * 64
    image = 6 * 6 * 3 * 64 + norm + 6 * (5 * 5 * 64 * 64 + norm)
    vector = (8 + 2 + TASKS) * 256 + 2 * 256 + 256 * 64 + 64
    joint = 9 * (3 * 3 * 64 * 64 + norm)
    head = 8 * 8 * 64 * 64 + norm + 64 * 64 + norm + 64 + 1
    assert count(build_q("paper")) == image + vector + joint + head == 1_244_289


def test_paper_runs_at_its_size_and_the_map_is_27_by_27():
    q = build_q("paper").eval()
    image, closed, height, task = states(1, 472)
    with torch.no_grad():
        image_map = q.image_part(image)
        logits = q.action_part(image_map, closed, height, task, torch.rand(1, 2, 8))
    assert image_map.shape == (1, 64, 27, 27) and logits.shape == (1, 2)
    assert q.trunk.features == 8 * 8 * 64


@pytest.mark.parametrize(
    ("size", "side"), [("medium", 64), ("medium", 96), ("medium", 128), ("small", 64), ("small", 96)]
)
def test_other_picture_sizes_are_accepted(size, side):
    q = build_q(size, image_size=side)
    with torch.no_grad():
        assert q(*states(2, side), torch.rand(2, 3, 8), poses(2)).shape == (2, 3)


def test_wrong_names_and_small_pictures_are_refused():
    with pytest.raises(UserError, match="unknown network size 'large'; known: paper, medium, small"):
        build_q("large")
    with pytest.raises(UserError, match="unknown heads 'none'; known: single, multi"):
        build_q("small", heads="none")
    with pytest.raises(UserError, match="64 x 64 pixels, the images have only 32 x 32"):
        added = QNetwork(NetworkConfig("small", merge="added"), TASKS)
        added.image_part(torch.zeros(1, 32, 32, 3, dtype=torch.uint8))
    with pytest.raises(UserError, match="whole pictures of 64 x 64"):
        build_q("small").image_part(torch.zeros(1, 80, 80, 3, dtype=torch.uint8))
    with pytest.raises(UserError, match="too small"):
        build_q("paper", image_size=32)
    with pytest.raises(UserError, match="unknown merge of the small network 'glued'; known: added, located"):
        QNetwork(NetworkConfig("small", merge="glued"), TASKS)
    with pytest.raises(UserError, match="unknown merge of the paper network 'located'; known: added"):
        QNetwork(NetworkConfig("paper", merge="located"), TASKS)


@pytest.mark.parametrize("merge", MERGES)
def test_samples_of_a_state_are_scored_as_if_alone(merge):
    q = QNetwork(NetworkConfig("small", merge=merge), TASKS)
    parts, action = states(3, 64), torch.rand(3, 5, 8)
    with torch.no_grad():
        together = q(*parts, action, poses(3))
        alone = torch.cat([q(*parts, action[:, index : index + 1], poses(3)) for index in range(5)], 1)
    assert_close(together, alone)


@pytest.mark.parametrize("heads", ["single", "multi"])
@pytest.mark.parametrize("size", ["small", "medium"])
def test_first_predictions_are_low_and_differ_little(size, heads):
    q = build_q(size, heads=heads, image_size=64)
    with torch.no_grad():
        value = q(*states(8, 64), torch.rand(8, 16, 8) * 2 - 1, poses(8)).sigmoid()
    assert value.min() > 0.02 and value.max() < 0.12


@pytest.mark.parametrize("heads", ["single", "multi"])
def test_task_changes_the_value(heads):
    q = build_q("small", heads=heads)
    image, closed, height, _ = states(1, 64)
    action = torch.zeros(1, 1, 8)
    with torch.no_grad():
        first, second = (q(image, closed, height, torch.tensor([task]), action, poses(1)) for task in (0, 1))
    assert (first - second).abs() > 1e-4


def test_one_tasks_loss_leaves_the_other_heads_alone():
    q = build_q("small", heads="multi")
    image, closed, height, _ = states(2, 64)
    q(image, closed, height, torch.tensor([3, 3]), torch.rand(2, 1, 8), poses(2)).sum().backward()
    for weight in q.head.weights:
        touched = weight.grad.flatten(1).abs().sum(1) > 0
        assert touched.tolist() == [task == 3 for task in range(TASKS)]


def test_weights_come_from_the_generator():
    def weights(seed):
        q = QNetwork(NetworkConfig("small", "multi"), 2, torch.Generator().manual_seed(seed))
        return torch.cat([parameter.flatten() for parameter in q.parameters()])

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


@pytest.mark.parametrize("size", ["small", "medium"])
def test_autocast_stays_close_and_returns_full_precision(size):
    exact, fast = build_q(size, image_size=64), build_q(size, image_size=64, autocast=True)
    parts, action = states(4, 64), torch.rand(4, 8, 8)
    with torch.no_grad():
        assert_close(fast(*parts, action, poses(4)), exact(*parts, action, poses(4)), atol=0.1, rtol=0)
    loss = fast(*parts, action, poses(4)).sum()
    loss.backward()
    assert loss.dtype == torch.float32 and all(parameter.grad is not None for parameter in fast.parameters())


def test_larger_pictures_are_cropped_at_the_centre():
    q = QNetwork(NetworkConfig("small", merge="added"), TASKS)
    image, *_ = states(1, 80)
    with torch.no_grad():
        assert_close(q.image_part(image), q.image_part(image[:, 8:72, 8:72]))


@pytest.mark.parametrize("merge", MERGES)
def test_rectangular_pictures_and_other_actions_are_accepted(merge):
    """What a picture shows at its right edge matters, too: it is not cropped to a square."""
    action = ActionConfig(["x", "y"], [], ["terminate"], [0.8, 0.2])
    q = build_q("small", image_size=24, image_width=48, merge=merge, action=action).eval()
    image = torch.zeros(1, 24, 48, 3, dtype=torch.uint8)
    changed = image.clone()
    changed[:, :, 40:] = 255
    rest = (torch.zeros(1), torch.zeros(1), torch.zeros(1, dtype=torch.long), torch.rand(1, 5, 3), poses(1))
    with torch.no_grad():
        one, other = q(image, *rest), q(changed, *rest)
    assert one.shape == (1, 5) and (one != other).all()
    with pytest.raises(UserError, match="24 x 48"):
        q(image[:, :, :40], *rest)


def test_places_need_the_motions_x_and_y():
    joints = ActionConfig(["a", "b"], [], [], [1.0])
    assert build_q("small", action=joints).trunk.__class__.__name__ == "ImageTrunk"
    with pytest.raises(UserError, match="merge=located needs actions with the motions x and y"):
        build_q("small", action=joints, merge="located")
