"""The image networks: shapes and counts of the paper, the split first joint convolution, heads, augmentation."""

import pytest
import torch
from torch.nn import functional
from torch.testing import assert_close

from polytask.errors import UserError
from polytask.mtopt.config.network import AugmentConfig, NetworkConfig
from polytask.mtopt.networks import MERGES, QNetwork, augment, build_detector, build_q, seed_zero
from polytask.mtopt.networks.augment import colour_matrix, crop, photometric
from polytask.mtopt.networks.layers import MergedConv
from polytask.mtopt.networks.layout import LAYOUTS, Conv

TASKS = 12


def states(count, size, generator=None):
    generator = generator or torch.Generator().manual_seed(0)
    image = torch.randint(0, 256, (count, size, size, 3), dtype=torch.uint8, generator=generator)
    closed = torch.randint(0, 2, (count,), generator=generator).float()
    height = torch.rand(count, generator=generator) * 0.3
    task = torch.arange(count) % TASKS
    return image, closed, height, task


def poses(count):
    """Put hands above the right bin."""
    return torch.tensor([0.15, 0.6, 0.1]).expand(count, 3)


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def sides(layers, side):
    found = []
    for layer in layers:
        if layer.size(side) != side:
            found.append(layer.size(side))
        side = layer.size(side)
    return found


def test_paper_maps_have_the_papers_sizes():
    layout = LAYOUTS["paper"]
    assert sides(layout.image, 472) == [236, 79, 27]
    assert sides(layout.joint, 27) == [14, 12, 10, 8]


@pytest.mark.parametrize("size", ["paper", "medium"])
def test_seven_convolutions_before_the_merge_and_nine_after(size):
    layout = LAYOUTS[size]
    assert sum(isinstance(layer, Conv) for layer in layout.image) == 7
    assert sum(isinstance(layer, Conv) for layer in layout.joint) == 9


def test_paper_parameters_by_formula():
    norm = 2 * 64
    image = 6 * 6 * 3 * 64 + norm + 6 * (5 * 5 * 64 * 64 + norm)
    vector = (8 + 2 + TASKS) * 256 + 2 * 256 + 256 * 64 + 64
    joint = 9 * (3 * 3 * 64 * 64 + norm)
    head = 8 * 8 * 64 * 64 + norm + 64 * 64 + norm + 64 + 1
    assert count(build_q("paper", TASKS)) == image + vector + joint + head == 1_244_289


def test_paper_runs_at_its_size_and_the_map_is_27_by_27():
    q = build_q("paper", TASKS).eval()
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
    q = build_q(size, TASKS, image_size=side)
    with torch.no_grad():
        assert q(*states(2, side), torch.rand(2, 3, 8), poses(2)).shape == (2, 3)


def test_wrong_names_and_small_pictures_are_refused():
    with pytest.raises(UserError, match="choose one of paper, medium, small"):
        build_q("large", TASKS)
    with pytest.raises(UserError, match="choose one of single, multi"):
        build_q("small", TASKS, heads="none")
    with pytest.raises(UserError, match="64 x 64 pixels, the images have only 32 x 32"):
        added = QNetwork(NetworkConfig("small", merge="added"), TASKS, seed_zero())
        added.image_part(torch.zeros(1, 32, 32, 3, dtype=torch.uint8))
    with pytest.raises(UserError, match="whole pictures of 64 x 64"):
        build_q("small", TASKS).image_part(torch.zeros(1, 80, 80, 3, dtype=torch.uint8))
    with pytest.raises(UserError, match="too small"):
        build_q("paper", TASKS, image_size=32)
    with pytest.raises(UserError, match="choose one of added, located"):
        QNetwork(NetworkConfig("small", merge="glued"), TASKS, seed_zero())
    with pytest.raises(UserError, match="of size 'paper'; choose one of added"):
        QNetwork(NetworkConfig("paper", merge="located"), TASKS, seed_zero())


@pytest.mark.parametrize(
    ("layer", "side"),
    [(Conv(5, 3), 6), (Conv(5, 3, stride=2), 8), (Conv(5, 3, stride=2), 7), (Conv(5, 5), 3), (Conv(5, 3), 1)],
)
def test_merged_convolution_equals_the_direct_one_at_the_borders_too(layer, side):
    torch.manual_seed(0)
    merged = MergedConv(layer, 4, side, bias=True)
    image, vector = torch.randn(2, 4, side, side), torch.randn(2, 3, 4)
    direct = merged.conv((image[:, None] + vector[..., None, None]).flatten(0, 1))  # (2 * 3, 5, side', side')
    assert_close(merged(merged.image_half(image), vector), direct)


@pytest.mark.parametrize("merge", MERGES)
def test_samples_of_a_state_are_scored_as_if_alone(merge):
    q = QNetwork(NetworkConfig("small", merge=merge), TASKS, seed_zero())
    parts, action = states(3, 64), torch.rand(3, 5, 8)
    with torch.no_grad():
        together = q(*parts, action, poses(3))
        alone = torch.cat([q(*parts, action[:, index : index + 1], poses(3)) for index in range(5)], 1)
    assert_close(together, alone)


@pytest.mark.parametrize("heads", ["single", "multi"])
@pytest.mark.parametrize("size", ["small", "medium"])
def test_first_predictions_are_low_and_differ_little(size, heads):
    q = build_q(size, TASKS, heads=heads, image_size=64)
    with torch.no_grad():
        value = q(*states(8, 64), torch.rand(8, 16, 8) * 2 - 1, poses(8)).sigmoid()
    assert value.min() > 0.02 and value.max() < 0.12


@pytest.mark.parametrize("heads", ["single", "multi"])
def test_task_changes_the_value(heads):
    q = build_q("small", TASKS, heads=heads)
    image, closed, height, _ = states(1, 64)
    action = torch.zeros(1, 1, 8)
    with torch.no_grad():
        first, second = (q(image, closed, height, torch.tensor([task]), action, poses(1)) for task in (0, 1))
    assert (first - second).abs() > 1e-4


def test_one_tasks_loss_leaves_the_other_heads_alone():
    q = build_q("small", TASKS, heads="multi")
    image, closed, height, _ = states(2, 64)
    q(image, closed, height, torch.tensor([3, 3]), torch.rand(2, 1, 8), poses(2)).sum().backward()
    for weight in q.head.weights:
        touched = weight.grad.flatten(1).abs().sum(1) > 0
        assert touched.tolist() == [task == 3 for task in range(TASKS)]


def test_weights_come_from_the_generator():
    def weights(seed):
        q = build_q("small", 2, "multi", generator=torch.Generator().manual_seed(seed))
        return torch.cat([parameter.flatten() for parameter in q.parameters()])

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


@pytest.mark.parametrize("size", ["small", "medium"])
def test_autocast_stays_close_and_returns_full_precision(size):
    exact, fast = build_q(size, TASKS, image_size=64), build_q(size, TASKS, image_size=64, autocast=True)
    parts, action = states(4, 64), torch.rand(4, 8, 8)
    with torch.no_grad():
        assert_close(fast(*parts, action, poses(4)), exact(*parts, action, poses(4)), atol=0.1, rtol=0)
    loss = fast(*parts, action, poses(4)).sum()
    loss.backward()
    assert loss.dtype == torch.float32 and all(parameter.grad is not None for parameter in fast.parameters())


def test_detector_sees_every_view_and_the_task():
    network = build_detector("small", 3, views=2, image_size=64)
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


def test_larger_pictures_are_cropped_at_the_centre():
    q = QNetwork(NetworkConfig("small", merge="added"), TASKS, seed_zero())
    image, *_ = states(1, 80)
    with torch.no_grad():
        assert_close(q.image_part(image), q.image_part(image[:, 8:72, 8:72]))


def test_crop_takes_whole_windows_and_repeats_the_edge():
    row = torch.arange(10, dtype=torch.uint8)
    image = (row[:, None] * 10 + row)[None, :, :, None].repeat(500, 1, 1, 3)
    inside = crop(image, 8, 0, torch.Generator().manual_seed(0))
    corner = inside[:, 0, 0, 0]
    assert set(corner.tolist()) == {0, 1, 2, 10, 11, 12, 20, 21, 22}
    assert torch.equal(inside[:, 3, 5, 0], corner + 35)
    shifted = crop(image, 10, 2, torch.Generator().manual_seed(0))
    assert shifted[:, 0, 0, 0].min() == 0 and shifted[:, -1, -1, 0].max() == 99
    assert set((shifted[:, 4, 4, 0].int() - 44).tolist()) == {10 * y + x for y in range(-2, 3) for x in range(-2, 3)}


def test_photometric_noise_stays_in_its_ranges():
    generator = torch.Generator().manual_seed(0)
    grey = torch.full((400, 2, 2, 3), 128, dtype=torch.uint8)
    only_brightness = AugmentConfig(True, brightness=0.125)
    change = (photometric(grey, only_brightness, generator).float() - 128) / 255
    # On an even grey only brightness shows: contrast keeps the mean, and grey has neither saturation nor hue.
    assert change.abs().max() < 0.13 and change.max() > 0.1 and change.min() < -0.1
    assert_close(change, change[..., :1].expand_as(change), atol=1 / 255, rtol=0)


def test_no_noise_changes_nothing():
    image = torch.randint(0, 256, (2, 8, 8, 3), dtype=torch.uint8)
    still = AugmentConfig(True, shift=0, brightness=0, contrast=0, saturation=0, hue=0)
    assert torch.equal(augment(image, 8, still, torch.Generator()), image)
    assert augment(image, 8, AugmentConfig(), torch.Generator()) is image


def test_hue_turns_red_to_green_to_blue_and_saturation_zero_is_grey():
    third = colour_matrix(torch.ones(1, 1, 1), torch.full((1, 1, 1), 2 * torch.pi / 3))[0]
    red = torch.tensor([1.0, 0.0, 0.0])
    once, twice = red @ third, red @ third @ third
    assert {int(once.argmax()), int(twice.argmax())} == {1, 2}
    assert_close(red @ third @ third @ third, red, atol=1e-3, rtol=0)
    grey = torch.tensor([0.2, 0.5, 0.9]) @ colour_matrix(torch.zeros(1, 1, 1), torch.zeros(1, 1, 1))[0]
    assert_close(grey, torch.full((3,), 0.2 * 0.299 + 0.5 * 0.587 + 0.9 * 0.114), atol=1e-3, rtol=0)


def test_zero_padding_matters_to_the_merge():
    # The border must differ from the inside, or the exact treatment above would have nothing to show.
    merged = MergedConv(Conv(1, 3), 1, 4, bias=False)
    torch.nn.init.ones_(merged.conv.weight)
    result = merged(torch.zeros(1, 1, 4, 4), torch.ones(1, 1, 1))[0, 0]
    assert_close(result, functional.conv2d(torch.ones(1, 1, 4, 4), torch.ones(1, 1, 3, 3), padding=1)[0, 0])
    assert result[0].tolist() == [4, 6, 6, 4] and result[1].tolist() == [6, 9, 9, 6]
