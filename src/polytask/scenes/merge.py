"""One model for scenes of the same shape, so that their worlds can share one batch.

A GPU needs large batches: each time step of a batch launches about a hundred kernels, whatever its number of worlds.
MuJoCo Warp allows other numbers in every world (positions, sizes, masses), but the structure (bodies, joints, types of
geoms) must be the same. So scenes whose moving parts have the same joints are merged. The merged model has as many
geoms and sites as any of its scenes needs. `Layout` tells which of them a scene uses. The others must be switched off.

Two simplifications make scenes alike and physics cheaper. Bodies that cannot move relative to their parent are fused
with it, and geoms that never collide are removed. A site marks where a fused body was. The dynamics stay the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from polytask.scenes import load_spec, robot_bodies

Indices = NDArray[np.int64]
Role = str | tuple[str, int]  # the name of a body that all scenes have, or (kind, number) of another one

_MARK = "body "  # prefix of the sites that mark fused bodies


@dataclass(frozen=True)
class Layout:
    """Where the parts of a scene are in the tensors of a batch.

    Attributes:
        model: The scene; its names are the ones to look up.
        bodies: Index in the batch of every body of `model`.
        geoms: Index in the batch of every geom of `model`.
        sites: Index in the batch of every site of `model`.
        mocaps: Index in the batch of every mocap body of `model`.
    """

    model: mujoco.MjModel
    bodies: Indices
    geoms: Indices
    sites: Indices
    mocaps: Indices

    @classmethod
    def alone(cls, model: mujoco.MjModel) -> Layout:
        """Return the layout of a scene that has a batch of its own."""
        return cls(model, *(np.arange(count) for count in (model.nbody, model.ngeom, model.nsite, model.nmocap)))

    def body(self, name: str) -> int | None:
        """Return the index of a body in the batch; None for a fused body, which has a mark instead."""
        index = mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_BODY, name)
        if index >= 0:
            return int(self.bodies[index])
        if mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_SITE, _MARK + name) >= 0:
            return None
        raise KeyError(f"the scene has no body named '{name}'")

    def mark(self, name: str) -> str:
        """Return the name of the site that marks a fused body."""
        return _MARK + name


@dataclass(frozen=True)
class MergedScene:
    """A model that has room for each of several scenes."""

    model: mujoco.MjModel
    layouts: dict[str, Layout]  # by scene


@cache
def slim_scene(scene: str, robot_file: str) -> mujoco.MjModel:
    """Compile a scene without fixed bodies, visual geoms, cameras and lights."""
    model: mujoco.MjModel = _slim_spec(scene, robot_file).compile()
    return model


def shape_of(scene: str, robot_file: str) -> tuple[Any, ...]:
    """Return what scenes must have in common to be merged: joints and what they hang on, actuators, sensors."""
    model = slim_scene(scene, robot_file)
    joints = []
    for joint in range(model.njnt):
        parent = int(model.body_parentid[model.jnt_bodyid[joint]])
        hangs_on = "mocap" if model.body_mocapid[parent] >= 0 else model.body(parent).name
        joints.append((int(model.jnt_type[joint]), bool(model.jnt_limited[joint]), hangs_on))
    return tuple(joints), model.nu, model.neq, model.nexclude, tuple(model.sensor_type.tolist())


@cache
def merge_scenes(scenes: tuple[str, ...], robot_file: str) -> MergedScene:
    """Build a model with room for each of several scenes of the same shape."""
    models = {scene: slim_scene(scene, robot_file) for scene in scenes}
    if len(models) == 1:
        return MergedScene(models[scenes[0]], {scenes[0]: Layout.alone(models[scenes[0]])})
    common = _common_bodies(list(models.values()))
    roles = {scene: _roles(model, common) for scene, model in models.items()}
    base = max(scenes, key=lambda scene: len(roles[scene]))
    spec = _slim_spec(base, robot_file)
    spec.compile()  # fuses the bodies of the specification
    spec = mujoco.MjSpec.from_string(spec.to_xml())
    for role, body in zip(roles[base], spec.bodies, strict=True):
        used = [(models[scene], roles[scene].index(role)) for scene in scenes if role in roles[scene]]
        _make_room(body, models[base], roles[base].index(role), used)
    merged = spec.compile()
    slots = _slots(merged, roles[base])
    layouts = {}
    for scene, model in models.items():
        bodies = np.array([roles[base].index(role) for role in roles[scene]])
        geoms, sites = (np.array([slots[key] for key in _keys(model, roles[scene], kind)], int) for kind in _KINDS)
        mocaps = merged.body_mocapid[bodies[_mocap_bodies(model)]]
        layouts[scene] = Layout(model, bodies, geoms, sites, mocaps)
    return MergedScene(merged, layouts)


def _slim_spec(scene: str, robot_file: str) -> mujoco.MjSpec:
    spec = load_spec(scene, robot_file)
    for body in spec.bodies:
        if body.name and body.parent is not None and not body.mocap and not body.joints:
            body.add_site(name=_MARK + body.name)
    # A scene may exclude pairs of its bodies that never meet. Merged scenes have all pairs of these bodies in common.
    own = robot_bodies(robot_file)
    excluded = [each for each in spec.excludes if not {each.bodyname1, each.bodyname2} <= own]
    for removed in [*spec.cameras, *spec.lights, *excluded]:
        spec.delete(removed)
    spec.compiler.fusestatic = True
    spec.compiler.discardvisual = True
    return spec


def _common_bodies(models: Sequence[mujoco.MjModel]) -> set[str]:
    """Return the names of the bodies that all scenes have, such as the robot's, with the same parent and joints."""

    def described(model: mujoco.MjModel) -> set[tuple[Any, ...]]:
        bodies = (model.body(index) for index in range(model.nbody))
        return {
            (b.name, model.body(b.parentid[0]).name, b.mocapid[0] >= 0, b.jntnum[0], b.dofnum[0])
            for b in bodies
            if b.name
        }

    return {name for name, *_ in set.intersection(*map(described, models))}


def _roles(model: mujoco.MjModel, common: set[str]) -> list[Role]:
    """Return what each body is: a common one by its name, others by kind and number."""
    roles: list[Role] = []
    numbers: Counter[str] = Counter()
    for index in range(model.nbody):
        body = model.body(index)
        if body.name in common:
            roles.append(body.name)
            continue
        kind = "fixture" if body.mocapid[0] >= 0 else "moving" if body.jntnum[0] else "fixed"
        roles.append((kind, numbers[kind]))
        numbers[kind] += 1
    return roles


_KINDS = ("geom", "site")


def _key(model: mujoco.MjModel, kind: str, index: int) -> tuple[Any, ...]:
    """Return what a geom or site cannot change from world to world, besides its body."""
    if kind == "site":
        return (kind,)
    fields = (model.geom_type, model.geom_contype, model.geom_conaffinity, model.geom_condim, model.geom_priority)
    return (kind, *(int(field[index]) for field in fields))


def _keys(model: mujoco.MjModel, roles: list[Role], kind: str) -> list[tuple[Any, ...]]:
    """Return a unique key for every geom or site: role of its body, own key, and its number among equal ones."""
    numbers: Counter[tuple[Any, ...]] = Counter()
    keys = []
    for index, body in enumerate(model.geom_bodyid if kind == "geom" else model.site_bodyid):
        key = (roles[body], *_key(model, kind, index))
        keys.append((*key, numbers[key]))
        numbers[key] += 1
    return keys


def _slots(merged: mujoco.MjModel, roles: list[Role]) -> dict[tuple[Any, ...], int]:
    return {key: index for kind in _KINDS for index, key in enumerate(_keys(merged, roles, kind))}


def _make_room(
    body: mujoco.MjsBody, base: mujoco.MjModel, index: int, used: Sequence[tuple[mujoco.MjModel, int]]
) -> None:
    """Add the geoms and sites to a body that other scenes have there, and keep its inertia general.

    Args:
        body: The body in the merged specification.
        base: The scene from which that specification was made.
        index: The body in that scene.
        used: For each scene that has the body: the scene and its index there.
    """
    wanted: Counter[tuple[Any, ...]] = Counter()
    for model, own in used:
        wanted |= _counts(model, own)
    for kind, *rest in (wanted - _counts(base, index)).elements():
        if kind == "site":
            body.add_site()
        else:
            shape, contype, conaffinity, condim, priority = rest
            body.add_geom(
                type=mujoco.mjtGeom(shape),
                size=[1e-3] * 3,
                contype=contype,
                conaffinity=conaffinity,
                condim=condim,
                priority=priority,
            )
    if any(model.body_jntnum[own] and not model.body_simple[own] for model, own in used):
        # MuJoCo stores a diagonal mass matrix for a body whose centre of mass is its origin. Others need the whole.
        body.ipos = [1e-3, 2e-3, 3e-3]


def _counts(model: mujoco.MjModel, body: int) -> Counter[tuple[Any, ...]]:
    """Return how many geoms of each key, and how many sites, a body has."""
    return Counter(
        _key(model, kind, index)
        for kind, bodies in (("geom", model.geom_bodyid), ("site", model.site_bodyid))
        for index in np.flatnonzero(bodies == body).tolist()
    )


def _mocap_bodies(model: mujoco.MjModel) -> Indices:
    """Return the mocap bodies, in the order of MuJoCo's mocap arrays."""
    bodies = np.flatnonzero(model.body_mocapid >= 0)
    return bodies[np.argsort(model.body_mocapid[bodies])]
