"""Draw a scene with viser: what stands still once, what moves in every picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from polytask.envs.captions import Caption
from polytask.viewer.scene import Instances, Poses, Scene
from polytask.viewer.shapes import Floats

if TYPE_CHECKING:
    import viser

_FLOOR, _LINES = (222, 226, 230), (196, 202, 208)
_FROM = np.array([0.60, 0.50, 0.62])  # direction from which the worlds are seen
_WIDE = 1.05  # width / height of a picture from which on its height limits what it shows
_HANDLE = 0.16  # metres
_GAMMA = 2.2  # of a screen


class Drawing:
    """The worlds of a scene on the page of a server."""

    def __init__(self, server: viser.ViserServer, scene: Scene) -> None:
        """Draw all worlds as they are now."""
        self._server, self.scene = server, scene
        self._moving: list[tuple[Any, Instances]] = []
        self._handle: Any = None
        geoms = scene.read()
        with server.atomic():
            server.scene.reset()
            server.scene.configure_default_lights(cast_shadow=False)  # with many worlds, shadows cost most of the time
            self._draw_floor()
            for number, instances in enumerate(scene.instances):
                self._draw(number, instances, scene.place(instances, geoms))
            self._labels = [
                server.scene.add_label(
                    f"/captions/{world}", "", position=scene.caption_at(world), anchor="bottom-center"
                )
                for world in range(len(scene.worlds))
            ]
        self._texts = [""] * len(self._labels)

    def update(self, captions: Sequence[Caption]) -> None:
        """Move what has moved, and write the captions that have changed."""
        geoms = self.scene.read()
        with self._server.atomic():
            for handle, instances in self._moving:
                poses = self.scene.place(instances, geoms)
                handle.batched_positions, handle.batched_wxyzs = poses.pos, poses.quat
            for world, caption in enumerate(captions):
                text = text_of(caption)
                if text != self._texts[world]:
                    self._texts[world] = self._labels[world].text = text

    def view(self, world: int | None, aspect: float = _WIDE) -> tuple[Floats, Floats]:
        """Return position and aim of a camera that sees one world, or all; `aspect` is the picture's width / height."""
        scene = self.scene
        size = scene.high - scene.low
        if world is not None:
            aim, distance = scene.centre(world), min(float(np.linalg.norm(size[:2])), 2.5)
        else:
            aim = scene.offsets.mean(0) + (scene.low + scene.high) / 2
            aim[2] = max(float(scene.low[2]), -0.2)
            span = np.ptp(scene.offsets, axis=0)[:2] + size[:2]
            distance = 0.8 * float(np.linalg.norm(span))
        distance *= max(1.0, _WIDE / max(aspect, 0.1))  # on a phone, from further away
        return (aim + distance * _FROM).astype(np.float32), aim.astype(np.float32)

    def show_handle(self, world: int, goal: Floats, moved: Callable[[Floats], None]) -> None:
        """Show a handle at a goal; `moved` is told where it is dragged, in the coordinates of the world."""
        self.hide_handle()
        offset = self.scene.offsets[world]
        self._handle = self._server.scene.add_transform_controls(
            "/goal", _HANDLE, disable_rotations=True, depth_test=False, position=goal + offset
        )

        async def tell(event: Any) -> None:  # not in a pool of threads: that could change the order
            moved(np.asarray(event.target.position, np.float32) - offset)

        self._handle.on_update(tell)

    def move_handle(self, world: int, goal: Floats) -> None:
        """Put the handle where a goal is: a new episode has another one."""
        if self._handle is not None:
            self._handle.position = goal + self.scene.offsets[world]

    def hide_handle(self) -> None:
        """Remove the handle."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def _draw(self, number: int, instances: Instances, poses: Poses) -> None:
        # Viser reads colours of instances as amounts of light, and MuJoCo as what a screen shows.
        rgb = np.clip(255 * instances.colour[:, :3] ** _GAMMA, 0, 255).astype(np.uint8)
        handle = self._server.scene.add_batched_meshes_simple(
            f"/worlds/{number}",
            instances.mesh.vertices,
            instances.mesh.faces,
            batched_wxyzs=poses.quat,
            batched_positions=poses.pos,
            batched_scales=instances.scale,
            batched_colors=rgb,
            batched_opacities=instances.colour[:, 3] if instances.is_clear else None,
            lod="off",
            cast_shadow=False,
            receive_shadow=False,
        )
        if not instances.is_still:
            self._moving.append((handle, instances))

    def _draw_floor(self) -> None:
        """Draw one floor under all worlds, if they stand on one."""
        scene = self.scene
        if scene.floor is None:
            return
        width, height = np.ptp(scene.offsets, axis=0)[:2] + 2 * (scene.high - scene.low)[:2]
        middle = (scene.low + scene.high) / 2
        self._server.scene.add_grid(
            "/floor",
            width=float(width),
            height=float(height),
            cell_color=_LINES,
            section_color=_LINES,
            plane_color=_FLOOR,
            plane_opacity=1.0,
            position=(float(middle[0]), float(middle[1]), scene.floor),
        )


def text_of(caption: Caption) -> str:
    """Return what is written over a world: its task, and a mark if it has succeeded, or the share that is done."""
    if caption.score >= 1.0:
        return f"{caption.task} ✓"
    return f"{caption.task} {100 * caption.score:.0f} %" if caption.score > 0 else caption.task
