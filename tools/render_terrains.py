"""Draw every parkour terrain at three levels, for docs/parkour.md: `python tools/render_terrains.py docs/parkour`."""

from __future__ import annotations

import copy
import os
import sys
from pathlib import Path

os.environ.setdefault("MUJOCO_GL", "egl")

import mujoco
import numpy as np
from PIL import Image

from polytask.envs.parkour.course import Tile
from polytask.envs.parkour.tasks import NUM_LEVELS, TASKS
from polytask.robots import go1
from polytask.scenes import compile_scene

LEVELS = (0, 4, 9)
WIDTH, HEIGHT = 760, 190  # size of the picture of one level, in pixels
COLORS = 64  # size of the palette: enough for shaded grey boxes, and a small file


def main() -> None:
    """Write one picture per terrain, with its levels below each other."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    model = copy.copy(compile_scene("parkour", go1.ROBOT.file))
    model.vis.global_.offwidth, model.vis.global_.offheight = WIDTH, HEIGHT
    model.vis.global_.fovy = 14  # degrees; a distant camera, so that near and far obstacles have similar sizes
    model.vis.headlight.ambient[:], model.vis.headlight.diffuse[:] = 0.55, 0.5
    model.geom_matid[: int(model.body_geomnum[0])] = -1
    renderer = mujoco.Renderer(model, HEIGHT, WIDTH)
    for name, terrain in TASKS.items():
        strips = [draw(model, renderer, terrain.tile(level, level / (NUM_LEVELS - 1))) for level in LEVELS]
        picture = Image.fromarray(np.concatenate(strips)).quantize(COLORS, dither=Image.Dither.NONE)
        picture.save(folder / f"{name}.png", optimize=True)


def draw(model: mujoco.MjModel, renderer: mujoco.Renderer, tile: Tile) -> np.ndarray:
    """Draw a tile from the side, with the robot at its start and the waypoints as green balls. (H, W, 3)"""
    count = len(tile.pos)
    model.geom_pos[:count], model.geom_quat[:count], model.geom_size[:count] = tile.pos, tile.quat, tile.size
    model.geom_rgba[:count] = (0.66, 0.63, 0.57, 1.0)
    is_near_wall = (tile.pos[:, 1] < -1.9) & (tile.size[:, 0] > 8.0)
    model.geom_rgba[:count][is_near_wall, 3] = 0.0
    data = mujoco.MjData(model)
    data.qpos[:7] = (1.0, 0.0, 0.3, 1.0, 0.0, 0.0, 0.0)
    data.qpos[7:] = go1.DEFAULT
    mujoco.mj_forward(model, data)
    camera = mujoco.MjvCamera()
    reach = max(float(tile.goals[:, 0].max()) + 1.0, 9.0)
    top = float(tile.height[8:-8, 8:-8].max())
    camera.lookat[:] = (reach / 2, 0.0, 0.35 * top)
    camera.distance, camera.azimuth, camera.elevation = max(1.1 * reach, 5.5 * (top + 1.5)), 75.0, -25.0
    renderer.update_scene(data, camera)
    renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = False  # the shadow map is too coarse for a whole tile
    for x, y in tile.goals:
        column, row = round(float(x) / 0.05), round((float(y) + 2.0) / 0.05)
        z = max(float(tile.height[column, row]), 0.0) + 0.12
        scene = renderer.scene
        ball = scene.geoms[scene.ngeom]
        mujoco.mjv_initGeom(
            ball,
            mujoco.mjtGeom.mjGEOM_SPHERE,
            np.full(3, 0.09),
            np.array([x, y, z], float),
            np.eye(3).ravel(),
            np.array([0.1, 0.7, 0.25, 1.0], np.float32),
        )
        scene.ngeom += 1
    return renderer.render().copy()


if __name__ == "__main__":
    main()
