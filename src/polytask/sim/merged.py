"""A Warp batch whose worlds belong to several scenes of the same shape: every world gets the numbers of its scene."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np
import torch
from torch import Tensor

from polytask.scenes.merge import Layout, MergedScene
from polytask.sim.config import WarpSettings
from polytask.sim.warp import WarpBatch

# The fields that can differ from world to world, by the kind of thing that they describe. MuJoCo and Warp store the
# same numbers under these names.
FIELDS: dict[str, tuple[str, ...]] = {
    "bodies": (
        "body_pos",
        "body_quat",
        "body_ipos",
        "body_iquat",
        "body_mass",
        "body_subtreemass",
        "body_inertia",
        "body_invweight0",
        "body_gravcomp",
    ),
    "geoms": (
        "geom_pos",
        "geom_quat",
        "geom_size",
        "geom_aabb",
        "geom_rbound",
        "geom_friction",
        "geom_solmix",
        "geom_solref",
        "geom_solimp",
        "geom_margin",
        "geom_gap",
    ),
    "sites": ("site_pos", "site_quat"),
    "joints": (
        "qpos0",
        "qpos_spring",
        "jnt_pos",
        "jnt_axis",
        "jnt_range",
        "jnt_margin",
        "jnt_stiffness",
        "jnt_stiffnesspoly",
        "jnt_solref",
        "jnt_solimp",
        "dof_armature",
        "dof_damping",
        "dof_dampingpoly",
        "dof_frictionloss",
        "dof_solref",
        "dof_solimp",
        "dof_invweight0",
        "eq_data",
        "eq_solref",
        "eq_solimp",
        "actuator_acc0",
    ),
}


def make_merged_batch(
    merged: MergedScene, worlds: Sequence[tuple[str, int]], device: torch.device, config: WarpSettings
) -> WarpBatch:
    """Create worlds of several scenes.

    Args:
        merged: A model with room for each scene.
        worlds: Scenes and their numbers of worlds, in the order of the worlds.
        device: Device of the batch.
        config: Settings of the backend.
    """
    batch = WarpBatch(merged.model, sum(count for _, count in worlds), device, config)
    scenes = list(merged.layouts)
    counts = torch.tensor([count for _, count in worlds])
    scene = torch.repeat_interleave(torch.tensor([scenes.index(name) for name, _ in worlds]), counts)  # (N,)
    for name, rows in scene_fields(merged).items():
        # A field that all worlds share is read faster.
        is_same = torch.equal(rows, rows[:1].expand_as(rows))
        field = batch.shared(name) if is_same else batch.per_world(name)
        field.copy_((rows[:1] if is_same else rows[scene]).reshape(field.shape))
    batch.place_static_geoms()
    batch.qpos.copy_(_rows(merged, "qpos0")[scene])
    for index, layout in enumerate(merged.layouts.values()):
        _pose_mocaps(batch, layout, torch.nonzero(scene == index).to(device))
    batch.forward()
    return batch


def scene_fields(merged: MergedScene) -> dict[str, Tensor]:
    """Return the fields of the merged model, with one row per scene. (S, ...)

    A geom that a scene does not have gets a bounding radius that is not a number. Every comparison with it is false, so
    the search for close pairs never finds this geom.
    """
    fields = {name: _rows(merged, name) for names in FIELDS.values() for name in names}
    for row, layout in zip(fields["geom_rbound"], merged.layouts.values(), strict=True):
        is_unused = torch.ones(len(row), dtype=torch.bool)
        is_unused[torch.from_numpy(layout.geoms)] = False
        row.masked_fill_(is_unused, torch.nan)
    return fields


def _rows(merged: MergedScene, name: str) -> Tensor:
    """Return a field with one row per scene (S, ...); entries that a scene lacks have the merged model's values."""
    kind = next(kind for kind, names in FIELDS.items() if name in names)
    shared = _field(merged.model, name)
    rows = shared.expand(len(merged.layouts), *shared.shape).clone()
    for row, layout in zip(rows, merged.layouts.values(), strict=True):
        slots = slice(None) if kind == "joints" else torch.from_numpy(getattr(layout, kind))
        row[slots] = _field(layout.model, name)
    return rows


def _field(model: mujoco.MjModel, name: str) -> Tensor:
    return torch.as_tensor(np.asarray(getattr(model, name)), dtype=torch.float32)


def _pose_mocaps(batch: WarpBatch, layout: Layout, worlds: Tensor) -> None:
    """Put the mocap bodies of some worlds (n, 1) where their scene has them."""
    model = layout.model
    bodies = [int(np.flatnonzero(model.body_mocapid == mocap)[0]) for mocap in range(model.nmocap)]
    slots = torch.from_numpy(layout.mocaps).to(batch.device)
    for tensor, values in ((batch.mocap_pos, model.body_pos), (batch.mocap_quat, model.body_quat)):
        tensor[worlds, slots] = torch.as_tensor(values[bodies], dtype=tensor.dtype, device=batch.device)
