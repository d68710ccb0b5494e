"""The first convolution after the merge, split into two halves."""

import pytest
import torch
from torch.nn import functional
from torch.testing import assert_close

from polytask.mtopt.networks.layers import MergedConv
from polytask.mtopt.networks.layout import Conv


@pytest.mark.parametrize(
    ("layer", "size"),
    [
        (Conv(5, 3), (6, 6)),
        (Conv(5, 3, stride=2), (8, 8)),
        (Conv(5, 3, stride=2), (7, 7)),
        (Conv(5, 5), (3, 3)),
        (Conv(5, 3), (1, 1)),
        (Conv(5, 3), (3, 8)),
        (Conv(5, 3, stride=2), (8, 5)),
    ],
)
def test_merged_convolution_equals_the_direct_one_at_the_borders_too(layer, size):
    torch.manual_seed(0)
    merged = MergedConv(layer, 4, size, bias=True)
    image, vector = torch.randn(2, 4, *size), torch.randn(2, 3, 4)
    direct = merged.conv((image[:, None] + vector[..., None, None]).flatten(0, 1))  # (2 * 3, 5, H', W')
    assert_close(merged(merged.image_half(image), vector), direct)


def test_zero_padding_matters_to_the_merge():
    # The border must differ from the inside, or the exact treatment above would have nothing to show.
    merged = MergedConv(Conv(1, 3), 1, (4, 4), bias=False)
    torch.nn.init.ones_(merged.conv.weight)
    result = merged(torch.zeros(1, 1, 4, 4), torch.ones(1, 1, 1))[0, 0]
    assert_close(result, functional.conv2d(torch.ones(1, 1, 4, 4), torch.ones(1, 1, 3, 3), padding=1)[0, 0])
    assert result[0].tolist() == [4, 6, 6, 4] and result[1].tolist() == [6, 9, 9, 6]
