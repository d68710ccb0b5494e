"""Settings of the camera pictures in a data set."""

from __future__ import annotations

from dataclasses import dataclass

from polytask.envs.views import CAMERAS, SCENE
from polytask.errors import UserError
from polytask.settings import setting


@dataclass
class PictureOptions:
    """The settings of `polytask collect export=lerobot`."""

    cameras: list[str] = setting(
        [SCENE], "with export=lerobot: cameras of the pictures; arms have all of them", choices=CAMERAS, min_length=1
    )
    width: int = setting(128, "with export=lerobot: width of the pictures, in pixels", within=(16, 1_280))
    height: int = setting(128, "with export=lerobot: height of the pictures, in pixels", within=(16, 960))

    def check_together(self, prefix: str) -> None:
        """Check that no camera is named twice."""
        if len(set(self.cameras)) < len(self.cameras):
            raise UserError(f"{prefix}cameras={list(self.cameras)} is not valid; each camera can be named once")
