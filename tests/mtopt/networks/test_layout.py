"""The tables of layers."""

import pytest

from polytask.mtopt.networks.layout import LAYOUTS, Conv


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
