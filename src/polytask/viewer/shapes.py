"""The meshes that geoms are drawn with: every box, ball and cylinder is one of three unit shapes, scaled.

A capsule is a cylinder with two balls. So a whole scene of many worlds is a handful of instanced meshes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import mujoco
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
_AROUND, _RINGS = 20, 10  # corners of a circle, and rings of a ball from pole to pole


@dataclass(frozen=True)
class Mesh:
    """Triangles whose corners run counter-clockwise, seen from outside."""

    vertices: Floats  # (V, 3)
    faces: NDArray[np.uint32]  # (F, 3)


def convex(points: Floats, faces: list[tuple[int, ...]]) -> Mesh:
    """Cut the faces of a convex body around the origin into triangles, with corners of their own and turned outwards.

    Faces do not share corners, so that edges look sharp.
    """
    vertices: list[Floats] = []
    for face in faces:
        for second, third in pairwise(face[1:]):
            a, b, c = points[face[0]], points[second], points[third]
            outwards = np.dot(np.cross(b - a, c - a), a + b + c) > 0
            vertices += [a, b, c] if outwards else [a, c, b]
    corners = np.array(vertices, np.float32)
    return Mesh(corners, np.arange(len(corners), dtype=np.uint32).reshape(-1, 3))


@cache
def box() -> Mesh:
    """Return a box of half sizes 1."""
    points = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], np.float32)
    return convex(points, [(0, 1, 3, 2), (4, 5, 7, 6), (0, 1, 5, 4), (2, 3, 7, 6), (0, 2, 6, 4), (1, 3, 7, 5)])


@cache
def cylinder() -> Mesh:
    """Return a cylinder around z of radius 1 and half length 1."""
    angle = 2 * np.pi * np.arange(_AROUND) / _AROUND
    ring = np.stack([np.cos(angle), np.sin(angle)], -1)
    points = np.concatenate([np.insert(ring, 2, z, axis=1) for z in (-1.0, 1.0)]).astype(np.float32)
    sides = [(i, (i + 1) % _AROUND, (i + 1) % _AROUND + _AROUND, i + _AROUND) for i in range(_AROUND)]
    return convex(points, [*sides, tuple(range(_AROUND)), tuple(range(_AROUND, 2 * _AROUND))])


@cache
def ball() -> Mesh:
    """Return a ball of radius 1; its faces share corners, so that it looks smooth."""
    down, around = np.meshgrid(
        np.linspace(0, np.pi, _RINGS + 1), 2 * np.pi * np.arange(_AROUND) / _AROUND, indexing="ij"
    )
    points = np.stack([np.sin(down) * np.cos(around), np.sin(down) * np.sin(around), np.cos(down)], -1)
    faces = []
    for ring in range(_RINGS):
        for i in range(_AROUND):
            here, right = ring * _AROUND + i, ring * _AROUND + (i + 1) % _AROUND
            faces += [(here, here + _AROUND, right + _AROUND), (here, right + _AROUND, right)]
    return Mesh(points.reshape(-1, 3).astype(np.float32), np.array(faces, np.uint32))


def mesh_of(model: mujoco.MjModel, index: int) -> Mesh:
    """Return a mesh of a model."""
    first, count = int(model.mesh_vertadr[index]), int(model.mesh_vertnum[index])
    start, faces = int(model.mesh_faceadr[index]), int(model.mesh_facenum[index])
    return Mesh(
        np.array(model.mesh_vert[first : first + count], np.float32),
        np.array(model.mesh_face[start : start + faces], np.uint32),
    )


def colours(model: mujoco.MjModel) -> Floats:
    """Return the colour of every geom as red, green, blue, opacity; a texture counts as its mean colour. (ngeom, 4)"""
    rgba = model.geom_rgba.astype(np.float32)
    for geom in np.flatnonzero(model.geom_matid >= 0):
        material = int(model.geom_matid[geom])
        rgba[geom] = model.mat_rgba[material]
        textures = model.mat_texid[material]
        for texture in textures[textures >= 0][:1]:
            channels = int(model.tex_nchannel[texture])
            start, pixels = int(model.tex_adr[texture]), int(model.tex_height[texture] * model.tex_width[texture])
            data = model.tex_data[start : start + pixels * channels].reshape(pixels, channels)
            rgba[geom, :3] *= data[:, :3].mean(axis=0) / 255
    return rgba
