"""A batch with worlds of several scenes: each world behaves as in a batch of its own scene."""

from __future__ import annotations

import dataclasses

import mujoco_warp as mjw
import pytest
import torch
import warp as wp
from torch import Tensor

from polytask.scenes.merge import merge_scenes
from polytask.sim import make_batch, make_merged_batch
from polytask.sim.base import Batch
from polytask.sim.merged import FIELDS, scene_fields
from polytask.sim.view import SceneView

CPU = torch.device("cpu")
SCENES = ("puck", "shelf", "puck_wall")
WORLDS = [("shelf", 1), ("puck", 2), ("puck_wall", 1)]
# Fields that only pictures depend on.
SEEN = ("mat_", "light_", "cam_", "geom_rgba", "geom_matid", "flex", "tex_")


def push_down(batch: Batch, steps: int) -> None:
    """Press the hand on the table and close the fingers."""
    hand = int(batch.model.body("mocap").mocapid[0])
    for step in range(steps):
        batch.mocap_pos[:, hand] = torch.tensor([0.0, 0.6, 0.2 - 0.01 * step])
        batch.ctrl[:] = torch.tensor([1.0, -1.0])
        batch.step(5)


@pytest.fixture(scope="module")
def merged() -> Batch:
    """Return worlds of three scenes after some steps."""
    batch = make_merged_batch(merge_scenes(SCENES, "sawyer.xml"), WORLDS, CPU)
    push_down(batch, 15)
    return batch


@pytest.mark.parametrize("index", range(3), ids=[scene for scene, _ in WORLDS])
def test_worlds_move_as_in_a_batch_of_their_own(merged: Batch, index: int) -> None:
    scene, count = WORLDS[index]
    alone = make_batch("warp", merge_scenes((scene,), "sawyer.xml").model, count, CPU)
    push_down(alone, 15)
    start = sum(count for _, count in WORLDS[:index])
    torch.testing.assert_close(merged.qpos[start : start + count], alone.qpos, atol=2e-4, rtol=0)


def test_only_the_geoms_of_its_scene_touch_anything_in_a_world(merged: Batch) -> None:
    layouts = merge_scenes(SCENES, "sawyer.xml").layouts
    scenes = [scene for scene, count in WORLDS for _ in range(count)]
    data = merged.warp_data  # type: ignore[attr-defined]
    contacts = int(data.nacon.numpy()[0])
    assert contacts > 0
    for world, geoms in zip(data.contact.worldid.numpy()[:contacts], data.contact.geom.numpy()[:contacts], strict=True):
        assert set(geoms.tolist()) <= set(layouts[scenes[world]].geoms.tolist())


def test_a_view_finds_the_parts_of_its_scene(merged: Batch) -> None:
    """The shelf stands where its scene has it; in worlds of other scenes it does not exist."""
    layouts = merge_scenes(SCENES, "sawyer.xml").layouts
    shelf = layouts["shelf"].model.body("shelf")
    view = SceneView(merged, slice(0, 1), layouts["shelf"])
    torch.testing.assert_close(view.body("shelf")[0], torch.tensor(shelf.pos, dtype=torch.float32))
    with pytest.raises(KeyError, match="shelf"):
        SceneView(merged, slice(1, 3), layouts["puck"]).body("shelf")
    hands = [
        SceneView(merged, slice(world, world + 1), layouts[s]).body("hand") for world, s in ((0, "shelf"), (1, "puck"))
    ]
    torch.testing.assert_close(hands[0], hands[1], atol=1e-4, rtol=0)


def test_a_fused_body_is_where_it_was(merged: Batch) -> None:
    view = SceneView(merged, slice(1, 3), merge_scenes(SCENES, "sawyer.xml").layouts["puck"])
    torch.testing.assert_close(view.body("table"), torch.tensor([[0.0, 0.6, 0.0]] * 2))
    torch.testing.assert_close(view.body_quat("table"), torch.tensor([[1.0, 0.0, 0.0, 0.0]] * 2))


def test_unused_geoms_are_never_found() -> None:
    merged = merge_scenes(SCENES, "sawyer.xml")
    radius = scene_fields(merged)["geom_rbound"]
    for row, layout in zip(radius, merged.layouts.values(), strict=True):
        assert row.isnan().sum() == merged.model.ngeom - layout.model.ngeom


def test_every_number_that_differs_between_scenes_is_copied() -> None:
    """A new version of MuJoCo Warp may add fields; those that differ between our scenes must be listed."""
    listed = {name for names in FIELDS.values() for name in names}
    with wp.ScopedDevice("cpu"):
        models = [mjw.put_model(layout.model) for layout in merge_scenes(SCENES, "sawyer.xml").layouts.values()]
    missing = []
    for field in dataclasses.fields(mjw.Model):
        values = [_batched(getattr(model, field.name)) for model in models]
        if field.name in listed or field.name.startswith(SEEN) or any(value is None for value in values):
            continue
        first = values[0]
        if any(value.shape == first.shape and not torch.equal(value, first) for value in values):
            missing.append(field.name)
    assert missing == []


def _batched(value: object) -> Tensor | None:
    """Return a float field of a Warp model that can have a value per world, else None."""
    is_batched = isinstance(value, wp.array) and value.ndim >= 2 and value.shape[0] == 1 and value.size > 0
    tensor = wp.to_torch(value) if is_batched else None
    return tensor if tensor is not None and tensor.is_floating_point() else None
