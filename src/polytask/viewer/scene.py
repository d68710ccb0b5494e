"""Where everything that can be seen is: the geoms of all worlds, side by side, as instances of few meshes.

The batch simulates slim scenes on any device. Its state is copied to the host, and MuJoCo's kinematics of the whole
scene gives the poses, so that worlds of both backends look the same.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import mujoco
import numpy as np
from numpy.typing import NDArray

from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.render import Place, places_of
from polytask.viewer import shapes
from polytask.viewer.shapes import Floats, Mesh

_HIDDEN_GROUP = 3  # of geoms: MuJoCo does not show this and higher ones, either
_BELOW = -10.0  # metres; shapes that a parkour tile does not use are buried deeper
_GAP = 0.12  # between worlds, as a share of their size
_GEOM = mujoco.mjtGeom


@dataclass(frozen=True)
class Piece:
    """A geom, or a part of it, as a scaled mesh."""

    mesh: str
    geom: int
    scale: tuple[float, float, float]
    along: float = 0.0  # metres from the middle of the geom, along its z axis


@dataclass(frozen=True)
class Instances:
    """Pieces of all worlds with the same mesh, which are drawn together.

    Attributes:
        mesh: Their mesh.
        is_still: Nothing moves them during the life of the scene.
        is_clear: They let light through.
        geom: Number of each one's geom, counted over all worlds. (n,)
        along: Its distance from the middle of the geom. (n,)
        scale: Its size. (n, 3)
        colour: Red, green, blue, opacity. (n, 4)
    """

    mesh: Mesh
    is_still: bool
    is_clear: bool
    geom: NDArray[np.int64]
    along: Floats
    scale: Floats
    colour: Floats


@dataclass(frozen=True)
class Poses:
    """Positions (n, 3) and orientations wxyz (n, 4)."""

    pos: Floats
    quat: Floats


class WorldScene:
    """One world: its model, which in parkour has terrain of its own, and its pose.

    Attributes:
        place: Where the world is.
        model: Its whole model.
        data: Its pose.
        root_body: Number of the body of a robot that walks.
    """

    def __init__(self, place: Place, *, robot_moves: bool) -> None:
        """Copy the world's layout.

        Args:
            place: Where the world is.
            robot_moves: The robot walks, and a camera that watches the world should go with it.
        """
        self.place = place
        self.model = copy.copy(place.part.model)  # a copy, because `copy_layout` writes to it
        place.group.batch.copy_layout(world=place.row, model=self.model)
        self.data = mujoco.MjData(self.model)
        self._geom_body = self.model.geom_bodyid
        free = np.flatnonzero(self.model.jnt_type == mujoco.mjtJoint.mjJNT_FREE)
        self.root_body = int(self.model.jnt_bodyid[free[0]]) if robot_moves and len(free) else None

    def pose(self, qpos: Floats, mocap_pos: Floats, mocap_quat: Floats) -> None:
        """Compute the poses of all bodies and geoms."""
        mocaps = self.place.part.mocaps
        self.data.qpos[:] = qpos
        self.data.mocap_pos[:], self.data.mocap_quat[:] = mocap_pos[mocaps], mocap_quat[mocaps]
        mujoco.mj_kinematics(self.model, self.data)

    def geoms(self) -> Poses:
        """Return the poses of the geoms."""
        quat = product(self.data.xquat[self._geom_body], self.model.geom_quat)
        return Poses(self.data.geom_xpos.astype(np.float32), quat.astype(np.float32))

    @property
    def root(self) -> Floats | None:
        """Position of a robot that walks. (3,)"""
        return None if self.root_body is None else self.data.xpos[self.root_body].astype(np.float32)

    def visible(self) -> NDArray[np.int64]:
        """Return the geoms to draw; a floor is drawn once for all worlds."""
        model = self.model
        chosen = (model.geom_group < _HIDDEN_GROUP) & (model.geom_type != _GEOM.mjGEOM_PLANE)
        chosen &= (shapes.colours(model)[:, 3] > 0) & (self.data.geom_xpos[:, 2] > _BELOW)
        return np.flatnonzero(chosen)

    def still(self) -> NDArray[np.bool_]:
        """Return which geoms never move; mocap bodies do, at a reset."""
        bodies = self.model.geom_bodyid
        is_mocap = self.model.body_mocapid[self.model.body_rootid[bodies]] >= 0
        return (self.model.body_weldid[bodies] == 0) & ~is_mocap

    def floor(self) -> float | None:
        """Return the height of the floor, if there is one."""
        planes = np.flatnonzero(self.model.geom_type == _GEOM.mjGEOM_PLANE)
        return float(self.data.geom_xpos[planes[0], 2]) if len(planes) else None

    def bounds(self) -> Floats:
        """Return the lowest and the highest corner of what does not move and can be seen. (2, 3)"""
        chosen = np.intersect1d(self.visible(), np.flatnonzero(self.still()))
        half = np.zeros((self.model.ngeom, 3))
        for geom in chosen:
            for piece in pieces_of(self.model, int(geom)):
                half[geom] = np.maximum(half[geom], np.add(piece.scale, (0.0, 0.0, abs(piece.along))))
        reach = np.abs(self.data.geom_xmat[chosen].reshape(-1, 3, 3)) @ half[chosen][:, :, None]
        centre = self.data.geom_xpos[chosen]
        corners = [(centre - reach[..., 0]).min(0), (centre + reach[..., 0]).max(0)]
        return np.array(corners, np.float32)


class Scene:
    """All worlds of an environment, in a grid."""

    def __init__(self, env: MultiTaskEnv) -> None:
        """Find what can be seen, and give each world its place in the grid."""
        self._env = env
        walks = env.config.domain.name == "parkour"
        self.worlds = [WorldScene(place, robot_moves=walks) for place in places_of(env)]
        self._starts = np.cumsum([0, *(world.model.ngeom for world in self.worlds)])
        self._update_worlds()
        bounds = np.stack([world.bounds() for world in self.worlds])  # (N, 2, 3)
        self.low, self.high = bounds[:, 0].min(0), bounds[:, 1].max(0)
        self.offsets = grid(len(self.worlds), (self.high - self.low)[:2] * (1 + _GAP))
        self.floor = self.worlds[0].floor()
        self.instances = self._find_instances()
        self._of_geom = np.repeat(np.arange(len(self.worlds)), np.diff(self._starts))

    def read(self) -> Poses:
        """Return the poses of all geoms of all worlds, side by side, as they are now."""
        self._update_worlds()
        parts = [world.geoms() for world in self.worlds]
        pos = np.concatenate([part.pos for part in parts]) + self.offsets[self._of_geom]
        return Poses(pos, np.concatenate([part.quat for part in parts]))

    def place(self, instances: Instances, geoms: Poses) -> Poses:
        """Return the poses of instances from those of all geoms."""
        quat = geoms.quat[instances.geom]
        return Poses(geoms.pos[instances.geom] + instances.along[:, None] * z_axis(quat), quat)

    def centre(self, world: int) -> Floats:
        """Return the point of a world to look at: a robot that walks, else the middle of the world. (3,)"""
        root = self.worlds[world].root
        middle = (self.low + self.high) / 2
        return self.offsets[world] + (
            np.array([*middle[:2], max(middle[2], 0.0)], np.float32) if root is None else root
        )

    def caption_at(self, world: int) -> Floats:
        """Return where the caption of a world stands: above it. (3,)"""
        middle = (self.low + self.high) / 2
        top = max(float(self.high[2]), 0.5) + 0.25
        return self.offsets[world] + np.array([middle[0], middle[1], top], np.float32)

    def _update_worlds(self) -> None:
        """Copy the state of every batch to the host, once, and pose the worlds."""
        states = {
            id(group): [
                tensor.cpu().numpy() for tensor in (group.batch.qpos, group.batch.mocap_pos, group.batch.mocap_quat)
            ]
            for group in self._env.groups
        }
        for world in self.worlds:
            world.pose(*(array[world.place.row] for array in states[id(world.place.group)]))

    def _find_instances(self) -> list[Instances]:
        """Collect the pieces of all worlds by mesh."""
        found: dict[tuple[str, bool, bool], list[tuple[int, Piece, Floats]]] = {}
        meshes: dict[str, Callable[[], Mesh]] = {"box": shapes.box, "ball": shapes.ball, "cylinder": shapes.cylinder}
        for number, world in enumerate(self.worlds):
            rgba, still = shapes.colours(world.model), world.still()
            for geom in world.visible().tolist():
                for piece in pieces_of(world.model, geom):
                    name = piece.mesh
                    if name.startswith("mesh "):  # numbers of meshes are those of one model
                        index, name = int(name.split()[1]), f"{id(world.place.part.model)} {name}"
                        meshes.setdefault(name, partial(shapes.mesh_of, world.model, index))
                    key = (name, bool(still[geom]), bool(rgba[geom, 3] < 1))
                    found.setdefault(key, []).append((int(self._starts[number]), piece, rgba[geom]))
        return [
            Instances(
                mesh=meshes[name](),
                is_still=is_still,
                is_clear=is_clear,
                geom=np.array([start + piece.geom for start, piece, _ in own]),
                along=np.array([piece.along for _, piece, _ in own], np.float32),
                scale=np.array([piece.scale for _, piece, _ in own], np.float32),
                colour=np.array([colour for _, _, colour in own], np.float32),
            )
            for (name, is_still, is_clear), own in found.items()
        ]


def pieces_of(model: mujoco.MjModel, geom: int) -> list[Piece]:
    """Return the pieces of a geom; height fields and signed distance fields, which no scene here has, give none."""
    x, y, z = (float(value) for value in model.geom_size[geom])
    kind = int(model.geom_type[geom])
    if kind == _GEOM.mjGEOM_SPHERE:
        return [Piece("ball", geom, (x, x, x))]
    if kind == _GEOM.mjGEOM_CAPSULE:
        ends = [Piece("ball", geom, (x, x, x), along) for along in (-y, y)]
        return [Piece("cylinder", geom, (x, x, y)), *ends]
    if kind == _GEOM.mjGEOM_CYLINDER:
        return [Piece("cylinder", geom, (x, x, y))]
    if kind == _GEOM.mjGEOM_ELLIPSOID:
        return [Piece("ball", geom, (x, y, z))]
    if kind == _GEOM.mjGEOM_BOX:
        return [Piece("box", geom, (x, y, z))]
    if kind == _GEOM.mjGEOM_MESH:
        return [Piece(f"mesh {int(model.geom_dataid[geom])}", geom, (1.0, 1.0, 1.0))]
    return []


def grid(count: int, size: Floats) -> Floats:
    """Return offsets (count, 3) that put worlds of a size (2,) beside each other, in about a square around the origin.

    The first world is at the far left, seen along y.
    """
    columns = min(count, max(1, round(math.sqrt(count * float(size[1] / size[0])))))
    rows = math.ceil(count / columns)
    index = np.arange(count)
    across = (index % columns - (columns - 1) / 2) * size[0]
    away = ((rows - 1) / 2 - index // columns) * size[1]
    return np.stack([across, away, np.zeros(count)], -1).astype(np.float32)


def product(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the products of quaternions wxyz. (n, 4)"""
    w, x, y, z = a.T
    s, i, j, k = b.T
    parts = (
        w * s - x * i - y * j - z * k,
        w * i + x * s + y * k - z * j,
        w * j - x * k + y * s + z * i,
        w * k + x * j - y * i + z * s,
    )
    return np.stack(parts, -1)


def z_axis(quat: Floats) -> Floats:
    """Return the z axis of each orientation. (n, 3)"""
    w, x, y, z = quat.T
    return np.stack([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)], -1)
