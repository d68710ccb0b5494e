"""Layers of the image networks. Maps are channels first in shape and channels last in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from polytask.errors import UserError
from polytask.mtopt.networks.layout import Conv, Pool, Size

GROUPS = 8
BATCH_EPS, BATCH_MOMENTUM = 1e-3, 3e-4  # the open code has a decay of 0.9997


class GroupNorm(nn.GroupNorm):
    """Group normalization that keeps the input's precision under autocast, which would widen every map to 32 bits."""

    def forward(self, input: Tensor) -> Tensor:
        """Normalize a map (B, C, H, W)."""
        with torch.autocast(input.device.type, enabled=False):
            return functional.group_norm(
                input, self.num_groups, self.weight.to(input.dtype), self.bias.to(input.dtype), self.eps
            )


class ChannelNorm(nn.LayerNorm):
    """Layer normalization over the channels of each cell (B, C, H, W), or of each row of a matrix (B, C)."""

    def forward(self, input: Tensor) -> Tensor:
        """Normalize over axis 1."""
        last = input.movedim(1, -1)  # (B, H, W, C), contiguous for a map in channels-last memory
        with torch.autocast(input.device.type, enabled=False):
            weight, bias = self.weight.to(last.dtype), self.bias.to(last.dtype)
            return functional.layer_norm(last, self.normalized_shape, weight, bias, self.eps).movedim(-1, 1)


def map_norm(kind: str, channels: int) -> nn.Module:
    """Make the normalization of a map with this number of channels."""
    makers: dict[str, Callable[[], nn.Module]] = {
        "batch": lambda: nn.BatchNorm2d(channels, eps=BATCH_EPS, momentum=BATCH_MOMENTUM),
        "group": lambda: GroupNorm(GROUPS, channels),
        "channel": lambda: ChannelNorm(channels),
        "none": nn.Identity,
    }
    return makers[kind]()


def vector_norm(kind: str, width: int) -> nn.Module:
    """Make the normalization of a vector of this width; a vector has no spatial groups, so `group` means `channel`."""
    return nn.BatchNorm1d(width, eps=BATCH_EPS, momentum=BATCH_MOMENTUM) if kind == "batch" else ChannelNorm(width)


def vector_layers(inputs: int, hidden: int, outputs: int, norm: str) -> nn.Sequential:
    """Build the two linear layers that the vector inputs go through."""
    first = nn.Linear(inputs, hidden, bias=False)
    return nn.Sequential(first, vector_norm(norm, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


def stack(layers: Sequence[Conv | Pool], channels: int, norm: str) -> nn.Sequential:
    """Build layers on maps of `channels`, each convolution followed by its normalization and ReLU."""
    modules: list[nn.Module] = []
    for layer in layers:
        if isinstance(layer, Pool):
            modules.append(nn.MaxPool2d(layer.side, ceil_mode=True))
            continue
        bias = norm == "none"  # a normalization has its own
        modules += [
            nn.Conv2d(channels, layer.channels, layer.kernel, layer.stride, layer.border, bias=bias),
            map_norm(norm, layer.channels),
            nn.ReLU(inplace=True),
        ]
        channels = layer.channels
    return nn.Sequential(*modules)


class MergedConv(nn.Module):
    """The first convolution after the merge: `conv(map + vector on every cell)`, split into two halves.

    A convolution is linear, so the image's half is computed once and each CEM sample only adds the vector's half. The
    vector is constant over the map, so its half is one matrix, except at the border: there some taps of the kernel fall
    on the zeros around the map, and the matrix is the sum of the other taps. Rows that lose the same taps are of one
    kind. A 3 x 3 kernel has at most three kinds of row, hence nine matrices, which are then copied to all cells.
    """

    _taps: Tensor
    _cell: Tensor

    def __init__(self, layer: Conv, channels: int, size: Size, bias: bool) -> None:
        """Prepare for maps of `channels` and of this height and width."""
        super().__init__()
        self.conv = nn.Conv2d(channels, layer.channels, layer.kernel, layer.stride, layer.border, bias=bias)
        (kinds, kind), (across, column) = (_kinds_of_row(layer, side) for side in size)  # (R, k), (H',); (C, k), (W',)
        taps = torch.einsum("rk,sl->klrs", kinds, across).flatten(2).flatten(0, 1)  # (k * k, R * C)
        self.register_buffer("_taps", taps, persistent=False)
        self.register_buffer("_cell", (kind[:, None] * len(across) + column).flatten(), persistent=False)  # (H'W',)
        self.size = layer.size(size[0]), layer.size(size[1])

    def image_half(self, image: Tensor) -> Tensor:
        """Convolve the image's map (B, C, H, W) to (B, C', H', W')."""
        return self.conv(image)

    def forward(self, image: Tensor, vector: Tensor) -> Tensor:
        """Add S vectors (B, S, C) to an image's half (B, C', H', W'); return maps (B * S, C', H', W')."""
        kinds = (self.conv.weight.flatten(2) @ self._taps).permute(1, 2, 0)  # (C, R * R, C')
        matrix = kinds.index_select(1, self._cell).flatten(1)  # (C, H'W' * C')
        half = image.flatten(2).transpose(1, 2).reshape(len(image), 1, -1)  # (B, 1, H'W' * C')
        maps = torch.baddbmm(half, vector, matrix.expand(len(image), -1, -1))  # (B, S, H'W' * C') in one pass
        return maps.view(-1, *self.size, self.conv.out_channels).permute(0, 3, 1, 2)


def _kinds_of_row(layer: Conv, side: int) -> tuple[Tensor, Tensor]:
    """Return which taps (R, k) each kind of output row loses, and the kind (H',) of every row; columns are alike."""
    start = torch.arange(layer.size(side))[:, None] * layer.stride - layer.border  # first input row of each output
    row = start + torch.arange(layer.kernel)
    inside = ((row >= 0) & (row < side)).float()  # (H', k) which taps of each output row see the map
    kinds, kind = torch.unique(inside, dim=0, return_inverse=True)
    return kinds, kind


def normalize_image(image: Tensor, size: Size) -> Tensor:
    """Turn pictures of bytes (B, H, W, 3) into (B, 3, *size) in [-0.5, 0.5]; larger ones are cropped.

    Raises:
        UserError: If a picture is smaller than the network's input.
    """
    height, width = image.shape[1:3]
    if height < size[0] or width < size[1]:
        raise UserError(f"the network needs {size[0]} x {size[1]} pixels, the images have only {height} x {width}")
    top, left = (height - size[0]) // 2, (width - size[1]) // 2
    centre = image[:, top : top + size[0], left : left + size[1]]
    return centre.permute(0, 3, 1, 2).float().div(255).sub(0.5)


def initialize(module: nn.Module, std: float | None, generator: torch.Generator) -> None:
    """Draw first weights from a normal of this deviation or, with None, by He's rule; biases are zero."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            if std is None:
                nn.init.kaiming_normal_(part.weight, nonlinearity="relu", generator=generator)
            else:
                nn.init.trunc_normal_(part.weight, std=std, a=-2 * std, b=2 * std, generator=generator)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
