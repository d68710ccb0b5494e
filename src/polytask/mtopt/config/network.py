"""Settings of the image networks and of how training pictures are changed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from polytask.errors import UserError
from polytask.mtopt.config.action import ActionConfig
from polytask.settings import require_order, setting

SIZES = ("paper", "medium", "small")  # the tables of layers, `networks.layout`
HEADS = ("single", "multi")
MERGES = ("added", "located")


@dataclass
class CameraConfig:
    """Pose of the shoulder camera and range of the hand; the same values as in the scene and in the world."""

    position: list[float] = setting([0.55, 0.15, 0.85], "position of the camera, m", is_free=True)
    right: list[float] = setting(
        [0.6472, 0.7623, 0.0], "direction to the right of the picture, in the world", is_free=True
    )
    up: list[float] = setting(
        [-0.5674, 0.4818, 0.6678], "direction to the top of the picture, in the world", is_free=True
    )
    fovy: float = setting(37.0, "vertical field of view, degrees", above=0.0, below=180.0)
    reach: float = setting(
        0.06, "how far an action of one moves the hand, m; set from world.reach", above=0.0, at_most=1.0
    )
    low: list[float] = setting([-0.285, 0.48], "smallest x and y of the hand, m", is_free=True)
    high: list[float] = setting([0.285, 0.72], "largest x and y of the hand, m", is_free=True)
    yaw_limit: float = setting(math.pi / 2, "how far the hand can turn to either side, rad", above=0.0, at_most=math.pi)
    floor: float = setting(
        0.02, "height of the objects in the bins; places are projected at this height, m", is_free=True
    )

    def check_together(self, prefix: str = "") -> None:
        """Check the lengths of the lists, the order of the bounds, and that both directions span a picture.

        Raises:
            UserError: If a value is not valid.
        """
        for key, length in {"position": 3, "right": 3, "up": 3, "low": 2, "high": 2}.items():
            found = getattr(self, key)
            if len(found) != length:
                raise UserError(f"{prefix}{key}={list(found)} is not valid; give {length} numbers")
        require_order(self, prefix, "low", "high")
        (a, b, c), (x, y, z) = self.right, self.up
        if b * z == c * y and c * x == a * z and a * y == b * x:
            raise UserError(f"{prefix}up={list(self.up)} is not valid; it must not be parallel to {prefix}right")


@dataclass
class NetworkConfig:
    """Settings of an image network."""

    size: str = setting("small", "paper, medium or small", choices=SIZES)
    heads: str = setting(
        "single", "single: the task is an input; multi: each task has its own dense layers", choices=HEADS
    )
    image_size: int | None = setting(
        None, "height of the pictures, pixels (default: the size's own)", within=(8, 1_024)
    )
    image_width: int | None = setting(None, "width of the pictures, pixels (default: their height)", within=(8, 4_096))
    autocast: bool = setting(False, "compute in bfloat16 where that is safe")
    merge: str | None = setting(
        None,
        "how actions join the picture: added to the whole map, or located at their target (default: the size's)",
        choices=MERGES,
    )
    camera: CameraConfig = setting(CameraConfig, "the camera, for merge=located")
    action: ActionConfig = setting(ActionConfig, "layout of an action, which the world declares")

    def __post_init__(self) -> None:
        """Accept a camera and an action as plain dictionaries, as files hold them."""
        if isinstance(self.camera, dict):
            self.camera = CameraConfig(**self.camera)
        if isinstance(self.action, dict):
            self.action = ActionConfig(**self.action)


@dataclass
class AugmentConfig:
    """Settings of image augmentation in training."""

    enabled: bool = setting(False, "change pictures; else training uses them as they are")
    shift: int = setting(4, "largest shift of a picture, pixels; its edge is repeated", within=(0, 1_024))
    brightness: float = setting(0.125, "largest change of brightness, as a part of the full range", within=(0.0, 1.0))
    contrast: float = setting(0.5, "largest change of the contrast's factor from 1", within=(0.0, 1.0))
    saturation: float = setting(0.5, "largest change of the saturation's factor from 1", within=(0.0, 1.0))
    hue: float = setting(0.2, "largest turn of the hue, as a part of the colour circle", within=(0.0, 1.0))
