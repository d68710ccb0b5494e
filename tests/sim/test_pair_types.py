"""Scenes share the kernel that intersects simple geoms, and still find the same contacts."""

from __future__ import annotations

import mujoco_warp as mjw
import pytest
import torch
import warp as wp
from mujoco_warp._src.collision_primitive import _PRIMITIVE_COLLISIONS
from mujoco_warp._src.math import upper_trid_index
from mujoco_warp._src.types import GeomType

from polytask.scenes import compile_scene
from polytask.sim import WarpSettings, pair_types
from polytask.sim import warp as warp_module
from polytask.sim.kernels import recording
from polytask.sim.pair_types import with_shared_pairs
from polytask.sim.warp import WarpBatch

CPU = torch.device("cpu")
SCENES = ("puck", "drawer", "hammer", "soccer", "coffee", "peg_insert")  # with five different sets of pairs


def counts_of(scene: str, robot: str = "sawyer.xml") -> tuple[int, ...]:
    with wp.ScopedDevice("cpu"):
        return mjw.put_model(compile_scene(scene, robot)).geom_pair_type_count


def test_simple_pairs_are_those_of_warps_kernel() -> None:
    """Two boxes are among them because of the flag that `sim.warp` sets."""
    assert {(int(one), int(other)) for one, other in _PRIMITIVE_COLLISIONS} == pair_types._SIMPLE


def test_scenes_have_one_of_two_sets_and_keep_their_counts() -> None:
    plain = {scene: counts_of(scene) for scene in SCENES}
    shared = {scene: with_shared_pairs(counts) for scene, counts in plain.items()}
    kinds = {tuple(count > 0 for count in counts) for counts in plain.values()}
    sets = set()
    for scene in SCENES:
        assert all(new == old or (old, new) == (0, 1) for old, new in zip(plain[scene], shared[scene], strict=True))
        sets.add(
            frozenset(pair for pair in pair_types._SIMPLE if shared[scene][pair_types._index(pair, len(GeomType))])
        )
    assert sets == set(pair_types._SHARED)
    assert len(kinds) > 2


def test_a_scene_with_other_pairs_keeps_its_own_kernel() -> None:
    counts = counts_of("parkour", "go1.xml")
    assert with_shared_pairs(counts) == counts


def test_the_order_of_pairs_is_warps() -> None:
    kinds = len(GeomType)
    assert len(counts_of("puck")) == kinds * (kinds + 1) // 2
    for pair in pair_types._SIMPLE:
        assert pair_types._index(pair, kinds) == upper_trid_index(kinds, *pair)


@pytest.mark.parametrize("scene", ["puck", pytest.param("hammer", marks=pytest.mark.slow)])
def test_worlds_move_as_with_a_kernel_of_their_own(scene: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def play() -> torch.Tensor:
        batch = WarpBatch(compile_scene(scene, "sawyer.xml"), 2, CPU, WarpSettings())
        for _ in range(10):
            batch.step(5)
        return batch.qpos.clone()

    shared = play()
    monkeypatch.setattr(warp_module, "with_shared_pairs", lambda counts: counts)
    torch.testing.assert_close(shared, play(), atol=1e-5, rtol=0.0)


def test_scenes_with_different_pairs_share_the_module() -> None:
    names = []
    for scene in ("door", "soccer"):
        with recording() as found:
            WarpBatch(compile_scene(scene, "sawyer.xml"), 1, CPU, WarpSettings()).step(1)
        names.append({each.folder for each in found if "primitive_narrowphase" in each.folder})
    assert len(names[0]) == 1
    assert names[0] == names[1]
