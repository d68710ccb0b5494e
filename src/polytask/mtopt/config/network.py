"""Settings of the image networks and of how training pictures are changed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from polytask.settings import setting

HEADS = ("single", "multi")
MERGES = ("added", "located")


@dataclass
class CameraConfig:
    """Pose of the shoulder camera and range of the hand; the same values as in the scene and in the world."""

    position: list[float] = setting([0.55, 0.15, 0.85], "position of the camera, m")
    right: list[float] = setting([0.6472, 0.7623, 0.0], "direction to the right of the picture, in the world")
    up: list[float] = setting([-0.5674, 0.4818, 0.6678], "direction to the top of the picture, in the world")
    fovy: float = setting(37.0, "vertical field of view, degrees")
    reach: float = setting(0.06, "how far an action of one moves the hand, m; set from world.reach")
    low: list[float] = setting([-0.285, 0.48], "smallest x and y of the hand, m")
    high: list[float] = setting([0.285, 0.72], "largest x and y of the hand, m")
    yaw_limit: float = setting(math.pi / 2, "how far the hand can turn to either side, rad")
    floor: float = setting(0.02, "height of the objects in the bins; places are projected at this height, m")


@dataclass
class NetworkConfig:
    """Settings of an image network."""

    size: str = setting("small", "paper, medium or small")
    heads: str = setting(
        "single", "single: the task is an input; multi: each task has its own dense layers", choices=HEADS
    )
    image_size: int | None = setting(None, "side of the pictures, pixels (default: the size's own)")
    autocast: bool = setting(False, "compute in bfloat16 where that is safe")
    merge: str | None = setting(
        None,
        "how actions join the picture: added to the whole map, or located at their target (default: the size's)",
        choices=MERGES,
    )
    camera: CameraConfig = setting(CameraConfig, "the camera, for merge=located")

    def __post_init__(self) -> None:
        """Accept a camera as a plain dictionary, as files hold it."""
        if isinstance(self.camera, dict):
            self.camera = CameraConfig(**self.camera)


@dataclass
class AugmentConfig:
    """Settings of image augmentation in training."""

    enabled: bool = setting(False, "change pictures; else training uses them as they are")
    shift: int = setting(4, "largest shift of a picture, pixels; its edge is repeated")
    brightness: float = setting(0.125, "largest change of brightness, as a part of the full range")
    contrast: float = setting(0.5, "largest change of the contrast's factor from 1")
    saturation: float = setting(0.5, "largest change of the saturation's factor from 1")
    hue: float = setting(0.2, "largest turn of the hue, as a part of the colour circle")
