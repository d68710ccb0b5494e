"""Settings of the camera pictures in a data set."""

from __future__ import annotations

from dataclasses import dataclass

from polytask.envs.views import CAMERAS, SCENE
from polytask.errors import UserError
from polytask.settings import setting

SIZE = 128  # pixels of width and height if the user gives none


@dataclass
class PictureOptions:
    """What `polytask collect` writes for other libraries, with pictures or without."""

    cameras: list[str] | None = setting(
        None,
        "with export=lerobot: cameras of the pictures (default: scene); arms have all of them",
        choices=CAMERAS,
        min_length=1,
    )
    width: int | None = setting(
        None, f"with export=lerobot: width of the pictures, in pixels (default: {SIZE})", within=(16, 1_280)
    )
    height: int | None = setting(
        None, f"with export=lerobot: height of the pictures, in pixels (default: {SIZE})", within=(16, 960)
    )
    export: str | None = setting(
        None,
        "also write <output>/<export> for other libraries: minari, or lerobot with pictures (extra: export)",
        choices=("minari", "lerobot"),
    )

    @property
    def views(self) -> tuple[str, ...]:
        """Return the cameras of the pictures."""
        return (SCENE,) if self.cameras is None else tuple(self.cameras)

    @property
    def size(self) -> tuple[int, int]:
        """Return the width and the height of the pictures."""
        return self.width or SIZE, self.height or SIZE

    def check_together(self, prefix: str) -> None:
        """Check that no camera is named twice, and that there are pictures to draw."""
        if len(set(self.views)) < len(self.views):
            raise UserError(f"{prefix}cameras={list(self.views)} is not valid; each camera can be named once")
        for name in ("cameras", "width", "height"):
            if self.export != "lerobot" and getattr(self, name) is not None:
                raise UserError(f"{prefix}{name} does not apply: only {prefix}export=lerobot has pictures")
