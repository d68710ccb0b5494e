"""Scenes: one MJCF file each, written for this package and compiled together with a robot.

A scene file includes `arena.xml`, usually `table.xml`, and `robot.xml`, a placeholder for the file of the robot. Both
models of the Go1 include `go1_parts.xml`.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from xml.etree import ElementTree

import mujoco

_FOLDER = resources.files("polytask.scenes") / "mjcf"


@cache
def compile_scene(scene: str, robot_file: str) -> mujoco.MjModel:
    """Compile a scene with a robot; the model is cached and shared, so do not write to it."""
    return load_spec(scene, robot_file).compile()


@cache
def robot_bodies(robot_file: str) -> frozenset[str]:
    """Return the names of the bodies in a robot's file."""
    root = ElementTree.fromstring((_FOLDER / robot_file).read_text(encoding="utf-8"))
    return frozenset(body.get("name", "") for body in root.iter("body"))


def load_spec(scene: str, robot_file: str) -> mujoco.MjSpec:
    """Read a scene with a robot into a specification, which can be changed before it is compiled."""
    path = _FOLDER / f"{scene}.xml"
    if not path.is_file():
        raise KeyError(f"there is no scene file {scene}.xml")
    include = {name: (_FOLDER / name).read_bytes() for name in ("arena.xml", "table.xml", "go1_parts.xml")}
    include["robot.xml"] = (_FOLDER / robot_file).read_bytes()
    return mujoco.MjSpec.from_string(path.read_text(encoding="utf-8"), include=include)


@cache
def digest() -> str:
    """Return a hash of all scene files. It changes when any of them does."""
    files = sorted((each for each in _FOLDER.iterdir() if each.is_file()), key=lambda each: each.name)
    contents = [each.name.encode() + b"\0" + each.read_bytes() for each in files]
    return hashlib.sha256(b"\0".join(contents)).hexdigest()
