"""Let scenes share one kernel of MuJoCo Warp: the one that intersects simple geoms.

Warp builds this kernel for exactly the kinds of pairs that a scene has. The scenes of MT50 have nine such sets. Each is
a module to compile once per machine and to hash at every start. A hash takes 0.2 s or, with capsules on boxes, 1.2 s on
one core, because Warp resolves static expressions by generating all code. So a scene gets the smaller of two sets that
contain its own. A kind of pair that it does not have costs a comparison per candidate.
"""

from __future__ import annotations

import math

import mujoco

_PLANE, _SPHERE, _CAPSULE, _ELLIPSOID, _CYLINDER, _BOX, _MESH = (
    int(getattr(mujoco.mjtGeom, f"mjGEOM_{name}"))
    for name in ("PLANE", "SPHERE", "CAPSULE", "ELLIPSOID", "CYLINDER", "BOX", "MESH")
)
Pairs = frozenset[tuple[int, int]]

# All pairs of this kernel. Other pairs belong to the convex search, which has a kernel for each of them.
_SIMPLE: Pairs = frozenset(
    [(_PLANE, other) for other in (_SPHERE, _CAPSULE, _ELLIPSOID, _CYLINDER, _BOX, _MESH)]
    + [(_SPHERE, other) for other in (_SPHERE, _CAPSULE, _CYLINDER, _BOX)]
    + [(_CAPSULE, _CAPSULE), (_CAPSULE, _BOX), (_BOX, _BOX)]
)
_COMMON: Pairs = frozenset(
    [(_PLANE, _SPHERE), (_PLANE, _CYLINDER), (_PLANE, _BOX), (_SPHERE, _CYLINDER), (_SPHERE, _BOX), (_BOX, _BOX)]
)
_CAPSULES: Pairs = frozenset([(_PLANE, _CAPSULE), (_SPHERE, _CAPSULE), (_CAPSULE, _CAPSULE), (_CAPSULE, _BOX)])
_SHARED: tuple[Pairs, ...] = (_COMMON, _COMMON | _CAPSULES)


def with_shared_pairs(counts: tuple[int, ...]) -> tuple[int, ...]:
    """Add pairs to those that a scene has, so that it shares its kernel with other scenes.

    Args:
        counts: How many pairs of each kind the scene has: `Model.geom_pair_type_count` of MuJoCo Warp.

    Returns:
        The same, with a one for each kind of pair that the kernel also handles. A scene with a kind of pair that is in
        none of the shared sets, such as parkour, keeps a kernel of its own.
    """
    kinds = math.isqrt(2 * len(counts))  # the upper triangle of a square
    present = {pair for pair in _SIMPLE if counts[_index(pair, kinds)]}
    for shared in _SHARED:
        if present <= shared:
            added = {_index(pair, kinds) for pair in shared}
            return tuple(max(count, int(index in added)) for index, count in enumerate(counts))
    return counts


def _index(pair: tuple[int, int], kinds: int) -> int:
    """Return the place of a pair in the upper triangle, row by row."""
    row, column = pair
    return row * (2 * kinds - row - 1) // 2 + column
