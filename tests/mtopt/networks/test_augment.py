"""Crops and photometric noise."""

import torch
from torch.testing import assert_close

from polytask.mtopt.config.network import AugmentConfig
from polytask.mtopt.networks.augment import augment, colour_matrix, crop, photometric


def test_crop_takes_whole_windows_and_repeats_the_edge():
    row = torch.arange(10, dtype=torch.uint8)
    image = (row[:, None] * 10 + row)[None, :, :, None].repeat(500, 1, 1, 3)
    inside = crop(image, (8, 8), 0, torch.Generator().manual_seed(0))
    corner = inside[:, 0, 0, 0]
    assert set(corner.tolist()) == {0, 1, 2, 10, 11, 12, 20, 21, 22}
    assert torch.equal(inside[:, 3, 5, 0], corner + 35)
    shifted = crop(image, (10, 10), 2, torch.Generator().manual_seed(0))
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
    assert torch.equal(augment(image, (8, 8), still, torch.Generator()), image)
    assert augment(image, (8, 8), AugmentConfig(), torch.Generator()) is image


def test_hue_turns_red_to_green_to_blue_and_saturation_zero_is_grey():
    third = colour_matrix(torch.ones(1, 1, 1), torch.full((1, 1, 1), 2 * torch.pi / 3))[0]
    red = torch.tensor([1.0, 0.0, 0.0])
    once, twice = red @ third, red @ third @ third
    assert {int(once.argmax()), int(twice.argmax())} == {1, 2}
    assert_close(red @ third @ third @ third, red, atol=1e-3, rtol=0)
    grey = torch.tensor([0.2, 0.5, 0.9]) @ colour_matrix(torch.zeros(1, 1, 1), torch.zeros(1, 1, 1))[0]
    assert_close(grey, torch.full((3,), 0.2 * 0.299 + 0.5 * 0.587 + 0.9 * 0.114), atol=1e-3, rtol=0)
