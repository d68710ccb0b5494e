"""A course: it collects the shapes and waypoints of one tile from its start to its end, and builds the tile."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from polytask.envs.parkour.shapes import BOX, CAPSULE, SPHERE, Shape, rotation

LENGTH, WIDTH = 18.0, 4.0  # metres of a tile along x and y
CELL = 0.05  # spacing of the height raster
RASTER = (round(LENGTH / CELL) + 1, round(WIDTH / CELL) + 1)  # samples along x and y, both ends included
SLOTS = {BOX: 44, SPHERE: 6, CAPSULE: 6}  # number of shapes of each kind in a scene, in its order
GOALS = 8
SPAWN = 2.0  # length of the pad on which the robot starts
PIT = -1.0  # height where there is no ground
_WALL, _WALL_TOP = 0.1, 0.495  # thickness and height of the walls around a tile
WALL_FACE = WIDTH / 2 - _WALL  # distance of a side wall's face from the middle line
_PARKED = (0.0, 0.0, -50.0)  # position of unused shapes
_RIDGE_BULGE = 0.02  # metres by which the end of a slab may stand above the other slope of a roof
_EDGE = 1e-6  # share of a cell that rounding may miss
_LAST_GOAL = 17.3  # largest x of a goal, so that a robot that stands on it is clear of the wall
Span = tuple[float, float]


@dataclass(frozen=True)
class Tile:
    """One finished tile."""

    pos: NDArray[np.float32]  # (G, 3) of the scene's slots
    quat: NDArray[np.float32]  # (G, 4)
    size: NDArray[np.float32]  # (G, 3)
    goals: NDArray[np.float32]  # (8, 2)
    height: NDArray[np.float32]  # shape RASTER: height of the ground at whole cells, PIT where there is none


def snap(value: float) -> float:
    """Round a length to whole cells, so that edges lie on the raster."""
    return round(value / CELL) * CELL


@dataclass
class Course:
    """A tile under construction.

    Attributes:
        random: Generator of the terrain's random numbers.
        shapes: Shapes so far.
        goals: Waypoints so far, in the order in which the robot must reach them.
    """

    random: np.random.Generator
    shapes: list[Shape] = field(default_factory=list)
    goals: list[tuple[float, float]] = field(default_factory=list)

    def uniform(self, low: float, high: float) -> float:
        """Draw a uniform number; the bounds may be in either order."""
        return float(self.random.uniform(min(low, high), max(low, high)))

    def goal(self, x: float, y: float) -> None:
        """Add a waypoint."""
        self.goals.append((min(x, _LAST_GOAL), y))

    # Ground

    def floor(self) -> None:
        """Cover the whole tile and put the first waypoint on the spawn pad."""
        self.ground(0.0, LENGTH)
        self.goal(1.5, 0.0)

    def pit(self) -> None:
        """Cover only the spawn pad and put the first waypoint on it; a robot that steps off it falls."""
        self.ground(0.0, SPAWN)
        self.goal(1.5, 0.0)

    def finish(self, x: float, top: float = 0.0) -> None:
        """Add ground from `x` to the end of the tile, with the last waypoint 0.5 m from its edge."""
        self.ground(x, LENGTH, top)
        self.goal(x + 0.5, 0.0)

    def ground(self, start: float, stop: float, top: float = 0.0) -> None:
        """Add a block as wide as the tile."""
        self.block((start, stop), (-WIDTH / 2, WIDTH / 2), top)

    def walls(self) -> None:
        """Add walls around the tile."""
        half, inner = WIDTH / 2, WALL_FACE
        for side in (-half, inner):
            self.block((0.0, LENGTH), (side, side + _WALL), _WALL_TOP)
        for end in (0.0, LENGTH - _WALL):
            self.block((end, end + _WALL), (-half, half), _WALL_TOP)

    # Obstacles

    def block(self, x: Span, y: Span, top: float, bottom: float = PIT) -> None:
        """Add a box with vertical sides and its edges on whole cells."""
        x0, x1, y0, y1 = snap(x[0]), snap(x[1]), snap(y[0]), snap(y[1])
        pos = ((x0 + x1) / 2, (y0 + y1) / 2, (top + bottom) / 2)
        self.shapes.append(Shape(BOX, pos, ((x1 - x0) / 2, (y1 - y0) / 2, (top - bottom) / 2)))

    def steps(self, length: float, half_width: float, rise: Span) -> None:
        """Fill the way through a pit with six steps up, each higher by a random `rise`, and continue at that height."""
        self.pit()
        x, top = SPAWN, 0.0
        for _ in range(6):
            top += self.uniform(*rise)
            self.block((x, x + length), (-half_width, half_width), top)
            self.goal(x + length / 2, 0.0)
            x += length
        self.finish(x, top)

    def ramp(self, x: Span, y: Span, low: float, high: float, fillings: int = 2) -> None:
        """Add a slope that rises along x from `low` to `high` and ends in a vertical drop.

        The slope is a tilted slab. Its last cell is a level block, which hides the slab's slanted end face. Blocks fill
        the space below, so that no leg gets under the slab.
        """
        x0, x1 = snap(x[0]), snap(x[1])
        crest = x1 - CELL
        self.slab((x0, crest), y, low, high)
        self.block((crest, x1), y, high)
        rise = (high - low) / (crest - x0)
        for index in range(1, fillings + 1):
            start = math.ceil((x0 + index / (fillings + 1) * (crest - x0)) / CELL) * CELL
            self.block((start, crest), y, low + rise * (start - x0) - 0.01)

    def roof(self, x: tuple[float, float, float], y: Span, low: float, high: float) -> None:
        """Add a solid with two slopes that rise along x from `low` at its first and last x to `high` at the middle one.

        The slopes are slabs so thick that they meet below the ridge. A slab that is steeper than 45 degrees would come
        out through the other slope, so it is thinner, and blocks fill the space below.
        """
        start, ridge, stop = (snap(value) for value in x)
        rise = high - low
        angle = max(math.atan2(rise, ridge - start), math.atan2(rise, stop - ridge))
        out = math.tan(angle) * math.sin(angle) - math.cos(
            angle
        )  # height of a slab's end above the other slope, per metre
        thick = min(rise * math.cos(angle), _RIDGE_BULGE / max(out, 1e-6))
        self.slab((start, ridge), y, low, high, half=thick / 2)
        self.slab((ridge, stop), y, high, low, half=thick / 2)
        self.block((start, stop), y, low)
        for part in (0.25, 0.5, 0.75):
            first = math.ceil((start + part * (ridge - start)) / CELL - _EDGE) * CELL
            last = math.floor((stop - part * (stop - ridge)) / CELL + _EDGE) * CELL
            self.block((first, last), y, low + part * rise - 0.01)

    def slab(
        self, x: Span, y: Span, start: float, stop: float, *, along_y: bool = False, half: float | None = None
    ) -> None:
        """Add a tilted plate whose upper side goes from height `start` to `stop` along x, or along y if asked.

        `half` is half of its thickness. By default it is such that the end face sticks out by at most one cell.
        """
        (first, last), side = (y, x) if along_y else (x, y)
        run = last - first
        angle = math.atan2(stop - start, run)
        half = half or min(0.1, CELL / 2 / max(abs(math.sin(angle)), 1e-6))
        along, across = (first + last) / 2 + half * math.sin(angle), (snap(side[0]) + snap(side[1])) / 2
        z = (start + stop) / 2 - half * math.cos(angle)
        length, width = math.hypot(run, stop - start) / 2, (snap(side[1]) - snap(side[0])) / 2
        if along_y:
            shape = Shape(BOX, (across, along, z), (width, length, half), rotation((1.0, 0.0, 0.0), angle))
        else:
            shape = Shape(BOX, (along, across, z), (length, width, half), rotation((0.0, 1.0, 0.0), -angle))
        self.shapes.append(shape)

    def disc(self, x: float, y: float, radius: float, top: float, boxes: int = 4) -> None:
        """Add a vertical prism over a regular polygon that has the disc's area and two sides per box."""
        half_angle = math.pi / (2 * boxes)
        inner = radius * math.sqrt(half_angle / math.tan(half_angle))  # from the middle to a side
        for index in range(boxes):
            pos, size = (x, y, (top + PIT) / 2), (inner, inner * math.tan(half_angle), (top - PIT) / 2)
            self.shapes.append(Shape(BOX, pos, size, rotation((0.0, 0.0, 1.0), 2 * index * half_angle)))

    def cap(self, x: float, y: float, radius: float, top: float, base: float = 0.0) -> None:
        """Add a partly sunken sphere whose section at height `base` has `radius`, and whose highest point is `top`."""
        sphere = _sphere(radius, top - base)
        self.shapes.append(Shape(SPHERE, (x, y, top - sphere), (sphere, 0.0, 0.0)))

    def domed_pillar(self, x: float, y: float, radius: float, top: float, base: float) -> None:
        """Add a pillar that stands in the pit, and whose top is the `cap` with these measures."""
        self.pole(x, y, _sphere(radius, top - base), top, bottom=2 * PIT)

    def pole(self, x: float, y: float, radius: float, top: float, bottom: float = -0.5) -> None:
        """Add a vertical pole with a round top."""
        upper, lower = top - radius, bottom
        self.shapes.append(Shape(CAPSULE, (x, y, (upper + lower) / 2), (radius, (upper - lower) / 2, 0.0)))

    # Result

    def tile(self) -> Tile:
        """Assign the shapes to slots, from the start of the tile to its end, and compute the raster."""
        if len(self.goals) != GOALS:
            raise ValueError(f"a course needs {GOALS} goals, not {len(self.goals)}")
        slots = []
        for kind, count in SLOTS.items():
            used = sorted((shape for shape in self.shapes if shape.kind == kind), key=lambda shape: shape.pos[0])
            if len(used) > count:
                raise ValueError(f"{len(used)} shapes of kind {kind} do not fit into {count} slots")
            slots += [*used, *[Shape(kind, _PARKED, (0.1, 0.1, 0.1))] * (count - len(used))]
        pos, quat, size = (np.array([getattr(s, name) for s in slots], np.float32) for name in ("pos", "quat", "size"))
        return Tile(pos, quat, size, np.array(self.goals, np.float32), raster(self.shapes))


def _sphere(radius: float, height: float) -> float:
    """Return the radius of the sphere whose cap of this height has a foot of this radius."""
    return (radius**2 + height**2) / (2 * height)


def raster(shapes: list[Shape]) -> NDArray[np.float32]:
    """Return the height of the highest shape at whole cells, as an array of shape `RASTER`."""
    height = np.full(RASTER, PIT)
    for shape in shapes:
        low = (np.array(shape.pos[:2]) - shape.reach + (0.0, WIDTH / 2)) / CELL
        high = (np.array(shape.pos[:2]) + shape.reach + (0.0, WIDTH / 2)) / CELL
        first = np.maximum(np.floor(low).astype(int), 0)
        last = np.minimum(np.ceil(high).astype(int) + 1, RASTER)
        columns, rows = np.arange(first[0], last[0]), np.arange(first[1], last[1])
        x, y = np.meshgrid(columns * CELL, rows * CELL - WIDTH / 2, indexing="ij")
        window = height[first[0] : last[0], first[1] : last[1]]
        np.maximum(window, shape.height(x, y), out=window)
    return height.astype(np.float32)
