"""Map places of the world to the policy's picture; the camera is fixed and known, as on a real robot."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from polytask.mtopt.config.action import ActionConfig
from polytask.mtopt.config.network import CameraConfig
from polytask.mtopt.networks.layout import PLACE_AXES

YAW = "yaw"  # the angle of an action that turns the hand


def camera_matrix(config: CameraConfig, aspect: float = 1.0) -> Tensor:
    """Return the matrix (4, 3) that maps rows (x, y, z, 1) to rows (u, v, 1) times the depth.

    u runs from -1 at the picture's left edge to 1, v from -1 at the top to 1.

    Args:
        config: The camera.
        aspect: Width of the picture by its height; the field of view is vertical.
    """
    right = torch.nn.functional.normalize(torch.tensor(config.right, dtype=torch.float64), dim=0)
    up = torch.tensor(config.up, dtype=torch.float64)
    up = torch.nn.functional.normalize(up - right * (up @ right), dim=0)
    forward = torch.linalg.cross(up, right)
    focal = 1 / math.tan(math.radians(config.fovy) / 2)
    axes = torch.stack((focal / aspect * right, -focal * up, forward), 1)  # (3, 3)
    offset = -(torch.tensor(config.position, dtype=torch.float64) @ axes)
    return torch.cat((axes, offset.unsqueeze(0))).float()


def project(matrix: Tensor, place: Tensor) -> Tensor:
    """Return the image coordinates (..., 2) of places (..., 3); they lie in [-1, 1] where the camera sees them."""
    # Not a matrix product: autocast and TF32 would round it by most of a pixel.
    seen = (place.unsqueeze(-1) * matrix[:3]).sum(-2) + matrix[3]
    return seen[..., :2] / seen[..., 2:].clamp(min=1e-3)


def destination(pose: Tensor, action: Tensor, config: CameraConfig, layout: ActionConfig) -> Tensor:
    """Return x, y and yaw (B, S, 3) that hands at poses (B, 3) reach by actions (B, S, A) of a layout with x and y."""
    x, y = (
        (pose[:, axis, None] + config.reach * action[..., layout.axes.index(name)]).clamp(
            config.low[axis], config.high[axis]
        )
        for axis, name in enumerate(PLACE_AXES)
    )
    yaw = pose[:, 2, None].expand_as(x)
    if YAW in layout.turns:
        sine = layout.turn(YAW)
        # The world turns by half of the action's angle.
        yaw = yaw + 0.5 * torch.atan2(action[..., sine], action[..., sine + 1])
    return torch.stack((x, y, yaw.clamp(-config.yaw_limit, config.yaw_limit)), -1)


def grid(points: int, pitch: float) -> Tensor:
    """Return the offsets (points * points, 2) of a square grid around its centre, m."""
    line = (torch.arange(points) - (points - 1) / 2) * pitch
    return torch.stack(torch.meshgrid(line, line, indexing="ij"), -1).flatten(0, 1)


def turn_grid(offsets: Tensor, target: Tensor) -> Tensor:
    """Turn offsets (G, 2) by the yaw of targets (..., 3) and add them to x and y: places (..., G, 2)."""
    cosine, sine = target[..., 2:].cos(), target[..., 2:].sin()  # (..., 1)
    across, along = offsets[:, 0], offsets[:, 1]
    x = target[..., :1] + cosine * across - sine * along
    y = target[..., 1:2] + sine * across + cosine * along
    return torch.stack((x, y), -1)
