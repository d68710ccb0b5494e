"""The cameras that pictures of data sets can come from. This module does not import MuJoCo.

`scene` is the camera in the scene's file, which videos use. The others are placed around the table of the arms.
"""

from __future__ import annotations

from dataclasses import dataclass

SCENE = "scene"


@dataclass(frozen=True)
class View:
    """A camera that looks at a point from a distance, with angles as MuJoCo counts them.

    Attributes:
        distance: From the point, m.
        azimuth: Direction of view around the vertical, degrees; 0 looks along x, 90 along y.
        elevation: Angle of the view above the horizontal, degrees; -90 looks straight down.
        point: Point in the world, m; None follows the fingertips.
    """

    distance: float
    azimuth: float
    elevation: float
    point: tuple[float, float, float] | None


_TABLE = (0.0, 0.65, 0.1)  # middle of the space that the tasks use
VIEWS = {
    "front": View(1.3, -90.0, -25.0, _TABLE),
    "side": View(1.3, 180.0, -20.0, _TABLE),
    "top": View(1.4, 90.0, -89.0, _TABLE),
    "hand": View(0.45, 90.0, -45.0, None),
}
CAMERAS = (SCENE, *VIEWS)
