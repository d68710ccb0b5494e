"""A merge by place: the network reads the picture at the place that an action leads to, in the hand's direction.

QT-Opt adds the action's vector to every cell of the image's map, and the following convolutions must learn which cells
matter. That takes hundreds of thousands of grasps. But a robot knows the poses of its hand and its camera, hence which
pixels show the place an action leads to. Here the map is read at a square grid of points around that place. The grid
turns with the hand, so an object along the fingers looks the same wherever it lies. A summary of the whole picture and
the vector inputs are added. Reading some points of a map is cheap, so the image part is still computed once for all CEM
samples.

Differences from the paper: the whole idea, which `small` and `medium` use unless `merge=added` is set. The inputs are
the paper's plus the hand's own pose, which every robot has. First figures, one seed on one CPU core: trained for 200 s
on 2,662 scripted one-action picks, 20 % of which lift an object, `small` has a held-out AUC of 0.70 for lift-any, and
0.52 with the added merge (`benchmarks/mtopt/README.md`).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from polytask.errors import UserError
from polytask.mtopt.config.network import NetworkConfig
from polytask.mtopt.networks.camera import camera_matrix, destination, grid, project, turn_grid
from polytask.mtopt.networks.layers import initialize, normalize_image, stack, vector_layers
from polytask.mtopt.networks.layout import Layout, Size, maps_after, picture_size

PLACE_SCALE = 5.0  # 1/m: gives places within a bin the scale of the other inputs
EXTRA = 4  # numbers added to the vector inputs: x and y of the target, sine and cosine of twice its yaw


class ImageFeatures(NamedTuple):
    """The features that depend on pictures alone."""

    fine: Tensor  # (B, C, h, w) map that is read at the targets of actions
    whole: Tensor  # (B, F) summary of the picture


class LocatedTrunk(nn.Module):
    """Layers from a picture, a pose and a vector to features of an action."""

    _matrix: Tensor
    _offsets: Tensor
    _middle: Tensor

    def __init__(self, layout: Layout, config: NetworkConfig, vector: int, generator: torch.Generator) -> None:
        """Build for the pictures, the camera and the actions of a configuration, with random weights.

        Args:
            layout: Layers.
            config: Of the network.
            vector: Width of the vectors.
            generator: Source of the weights.
        """
        super().__init__()
        located, camera = layout.located, config.camera
        assert located is not None, "the layout has no merge by place"
        self.image_size: Size = picture_size(config)
        self.camera, self.action = camera, config.action
        (fine_channels, _), (coarse_channels, size) = maps_after(self.image_size, located.fine, located.coarse)
        self.fine = stack(located.fine, 3, layout.image_norm)
        self.coarse = stack(located.coarse, fine_channels, layout.image_norm)
        self.features = located.width
        self.whole = nn.Linear(coarse_channels * size[0] * size[1], located.width)
        self.hand = nn.Linear(fine_channels * located.points**2, located.width, bias=False)
        self.target = nn.Linear(fine_channels * located.points**2, located.width, bias=False)
        self.vector = vector_layers(vector + EXTRA, layout.vector, located.width, layout.vector_norm)
        aspect = self.image_size[1] / self.image_size[0]
        self.register_buffer("_matrix", camera_matrix(camera, aspect), persistent=False)  # (4, 3)
        self.register_buffer("_offsets", grid(located.points, located.pitch), persistent=False)  # (G, 2)
        middle = (torch.tensor(camera.low) + torch.tensor(camera.high)) / 2
        self.register_buffer("_middle", middle, persistent=False)  # (2,) of the range of x and y
        initialize(self, layout.weight_std, generator)

    def image_part(self, image: Tensor) -> ImageFeatures:
        """Compute the features that depend on pictures (B, H, W, 3) of bytes alone.

        Raises:
            UserError: If they have another size than the network's: in a crop, places would lie elsewhere.
        """
        if tuple(image.shape[1:3]) != self.image_size:
            (height, width), found = self.image_size, tuple(image.shape[1:3])
            raise UserError(f"a network with merge=located needs whole pictures of {height} x {width}, not {found}")
        fine = self.fine(normalize_image(image, self.image_size))
        return ImageFeatures(fine, self.whole(self.coarse(fine).flatten(1)))

    def joint_part(
        self, seen: ImageFeatures, vector: Tensor, action: Tensor, pose: Tensor | None, height: Tensor
    ) -> Tensor:
        """Return features (B, S, F) of S actions (B, S, A) with vectors (B, S, D) at poses (B, 3) and heights (B,).

        Raises:
            UserError: If there are no poses.
        """
        if pose is None:
            raise UserError("a network with merge=located needs the hand's pose; pass it, or set merge=added")
        batch, samples = action.shape[:2]
        target = destination(pose, action, self.camera, self.action)  # (B, S, 3)
        double = 2 * target[..., 2:]  # the gripper looks the same after half a turn
        place = (target[..., :2] - self._middle) * PLACE_SCALE
        vector = torch.cat((vector, place, double.sin(), double.cos()), -1)
        embedded = self.vector(vector.flatten(0, 1)).unflatten(0, (batch, samples))
        floor = torch.full_like(height, self.camera.floor)
        found = self.target(self._read(seen.fine, target, floor))  # (B, S, F)
        held = self.hand(self._read(seen.fine, pose[:, None], height))  # (B, 1, F)
        return (embedded + found + held + seen.whole[:, None]).relu()

    def _read(self, fine: Tensor, target: Tensor, height: Tensor) -> Tensor:
        """Sample maps (B, C, h, w) around targets (B, S, 3) of x, y and yaw at heights (B,): (B, S, C * G)."""
        place = turn_grid(self._offsets, target)  # (B, S, G, 2)
        place = torch.cat((place, height[:, None, None, None].expand(*place.shape[:-1], 1)), -1)
        where = project(self._matrix, place)  # (B, S, G, 2), in full precision: bfloat16 is off by a pixel
        return functional.grid_sample(fine.float(), where, align_corners=False).permute(0, 2, 1, 3).flatten(2)
