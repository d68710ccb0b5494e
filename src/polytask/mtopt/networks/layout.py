"""The layers of the three sizes of network, as tables.

`paper` is QT-Opt's critic (arXiv 1806.10293) as its authors' open code has it: 7 convolutions before the vector is
merged, 9 after. `medium` keeps the 7 + 9 but pools earlier and merges at a coarser map, so that 64 CEM samples of a
thousand states fit one GPU. `small` is for two CPU cores.

Differences from the paper: `medium` and `small` use no batch normalization. Other copies of the network compute the
targets, from a data mix that changes during collection, so batch statistics would differ between the copies. Both
sizes merge actions by place unless `merge=added` is set, see `located.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polytask.errors import UserError, require_known
from polytask.mtopt.config.network import MERGES, NetworkConfig

Size = tuple[int, int]  # height and width
PLACE_AXES = ("x", "y")  # the motions of an action that lead the hand to a place


@dataclass(frozen=True)
class Conv:
    """A convolution to `channels`, then normalization and ReLU; `padding` None keeps the size (divided by stride)."""

    channels: int
    kernel: int
    stride: int = 1
    padding: int | None = None

    @property
    def border(self) -> int:
        """Return the number of zeros on each side."""
        return (self.kernel - 1) // 2 if self.padding is None else self.padding

    def size(self, size: int) -> int:
        """Return the side of the map that a map of side `size` becomes."""
        return (size + 2 * self.border - self.kernel) // self.stride + 1


@dataclass(frozen=True)
class Pool:
    """Max pooling over squares of this side, including an incomplete last row and column."""

    side: int

    def size(self, size: int) -> int:
        """Return the side of the map that a map of side `size` becomes."""
        return -(-size // self.side)


@dataclass(frozen=True)
class Located:
    """The layers of a merge by place (see `located.py`)."""

    fine: tuple[Conv | Pool, ...]  # to the map that is read at an action's target
    coarse: tuple[Conv | Pool, ...]  # from there to the summary of the whole picture
    points: int  # side of the square grid of points that are read
    pitch: float  # distance between points, m
    width: int  # of the layer in which all parts are added


@dataclass(frozen=True)
class Layout:
    """One size of network: layers on the image alone, on image and vector together, and the dense layers."""

    image_size: int  # default side of the square picture
    image: tuple[Conv | Pool, ...]
    joint: tuple[Conv | Pool, ...]  # the first is a convolution: the merge is folded into it
    vector: int  # width of the hidden layer that the vector inputs go through
    dense: tuple[int, int]  # hidden layers of a head
    image_norm: str
    joint_norm: str
    vector_norm: str
    weight_std: float | None = None  # standard deviation of the first weights; None: He's rule
    located: Located | None = None  # None: this size can only merge by adding


def maps_after(picture: Size, *parts: Sequence[Conv | Pool]) -> list[tuple[int, Size]]:
    """Return the channels and the size of the map after each part of the layers, from pictures of this size.

    Raises:
        UserError: If the picture is too small for the layers.
    """
    channels, size, found = 3, picture, list[tuple[int, Size]]()
    for layers in parts:
        for layer in layers:
            size = layer.size(size[0]), layer.size(size[1])
            channels = layer.channels if isinstance(layer, Conv) else channels
        found.append((channels, size))
    if min(min(size) for _, size in found) < 1:
        raise UserError(f"images of {picture[0]} x {picture[1]} are too small for this network")
    return found


LAYOUTS: dict[str, Layout] = {
    "paper": Layout(
        image_size=472,
        # 472 -> 236 -> 79 -> 27
        image=(Conv(64, 6, stride=2), Pool(3), *[Conv(64, 5)] * 6, Pool(3)),
        # 27 -> 14 -> 8
        joint=(*[Conv(64, 3)] * 6, Pool(2), *[Conv(64, 3, padding=0)] * 3),
        vector=256,
        dense=(64, 64),
        image_norm="batch",
        joint_norm="batch",
        vector_norm="batch",
        weight_std=0.01,
    ),
    "medium": Layout(
        image_size=128,
        # 128 -> 64 -> 32 -> 16
        image=(Conv(64, 5, stride=2), Pool(2), *[Conv(64, 3)] * 6, Pool(2)),
        # 16 -> 8 -> 4; six of the nine convolutions, and all CEM samples, see an 8 x 8 map
        joint=(Conv(64, 3, stride=2), *[Conv(64, 3)] * 5, Pool(2), *[Conv(64, 3)] * 3),
        vector=256,
        dense=(128, 128),
        image_norm="group",
        joint_norm="channel",
        vector_norm="channel",
        located=Located(
            fine=(Conv(64, 5, stride=2), *[Conv(64, 3)] * 5),  # 64: a cell is a centimetre of the bin
            coarse=(Pool(2), Conv(64, 3), Pool(2), Conv(64, 3), Pool(2), Conv(64, 3), Pool(2)),  # 32 -> 16 -> 8 -> 4
            points=10,
            pitch=0.02,
            width=256,
        ),
    ),
    "small": Layout(
        image_size=64,
        # 64 -> 32 -> 16 -> 8
        image=(Conv(32, 5, stride=2), Pool(2), Conv(32, 3), Conv(64, 3), Pool(2), Conv(64, 3)),
        joint=(Conv(64, 3, stride=2),),  # 8 -> 4
        vector=128,
        dense=(128, 128),
        image_norm="group",
        joint_norm="none",  # passes over the maps of all CEM samples are slow; image and vector are normalized already
        vector_norm="channel",
        located=Located(
            fine=(Conv(32, 5, stride=2), Conv(32, 3), Conv(32, 3)),  # 32: a cell is two centimetres of the bin
            coarse=(Pool(2), Conv(64, 3), Pool(2), Conv(64, 3), Pool(2)),  # 16 -> 8 -> 4
            points=8,
            pitch=0.025,
            width=128,
        ),
    ),
}


def layout_of(size: str) -> Layout:
    """Return the layout of a size.

    Raises:
        UserError: If there is no such size.
    """
    return LAYOUTS[require_known("network size", size, LAYOUTS)]


def picture_size(config: NetworkConfig) -> Size:
    """Return the height and width of the pictures that a network looks at."""
    height = config.image_size or layout_of(config.size).image_size
    return height, config.image_width or height


def merges_by_place(config: NetworkConfig) -> bool:
    """Return whether a network merges actions by place.

    Raises:
        UserError: If there is no such merge, or this size or the world's actions do not have it.
    """
    has_places = layout_of(config.size).located is not None
    has_axes = set(PLACE_AXES) <= set(config.action.axes)
    if config.merge is None:
        return has_places and has_axes
    known = MERGES if has_places else MERGES[:1]
    is_located = require_known(f"merge of the {config.size} network", config.merge, known) == "located"
    if is_located and not has_axes:
        raise UserError(f"merge=located needs actions with the motions x and y, not {list(config.action.axes)}")
    return is_located
