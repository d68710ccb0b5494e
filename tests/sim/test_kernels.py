"""Finding the modules that a scene needs, without running its kernels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import torch
import warp as wp

from polytask.scenes import compile_scene
from polytask.sim import WarpSettings
from polytask.sim.kernels import Variant, cache_folder, is_recording, recording
from polytask.sim.warp import WarpBatch

CPU = torch.device("cpu")


def work(num_worlds: int = 1, scene: str = "puck", robot: str = "sawyer.xml") -> WarpBatch:
    batch = WarpBatch(compile_scene(scene, robot), num_worlds, CPU, WarpSettings())
    batch.step(2)
    return batch


def names(variants: dict[Variant, None]) -> set[str]:
    return {each.folder for each in variants}


@pytest.fixture(scope="module")
def needed() -> dict[Variant, None]:
    with recording() as found:
        work()
    return found


@contextmanager
def loading() -> Iterator[set[str]]:
    """Collect the names of the modules that are loaded."""
    loaded: set[str] = set()
    load = wp.Module.load

    def spy(module: Any, device: Any, block_dim: int | None = None) -> Any:
        loaded.add(module.get_module_identifier(block_dim))
        return load(module, device, block_dim)

    with patch.object(wp.Module, "load", spy):
        yield loaded


def test_the_recorded_modules_are_those_that_the_work_loads(needed: dict[Variant, None]) -> None:
    with loading() as loaded:
        batch = work()
        batch.diverged.fill_(True)  # the branch of diverged worlds has kernels of its own
        batch._any_diverged.fill_(1)
        batch.step(2)
    assert loaded == names(needed)


def test_the_modules_do_not_depend_on_the_number_of_worlds(needed: dict[Variant, None]) -> None:
    with recording() as found:
        work(num_worlds=5)
    assert names(found) == names(needed)


def test_another_scene_shares_most_modules_and_has_its_own(needed: dict[Variant, None]) -> None:
    with recording() as found:
        work(scene="drawer")
    assert len(names(found) & names(needed)) > len(names(found)) / 2
    assert names(found) - names(needed)


def test_a_question_to_a_kernel_needs_its_module_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warp asks the compiled kernel how many threads suit it, with the default number of threads per block."""
    monkeypatch.setattr(wp, "get_device", lambda device=None: SimpleNamespace(is_cuda=True, alias="cuda:0"))
    module = type("FakeModule", (), {"options": {"block_dim": 256}})()
    with recording() as found:
        wp.get_suggested_block_size(SimpleNamespace(module=module), "cuda:0")
    assert [(each.device, each.block_dim) for each in found] == [("cuda:0", 256)]


def test_nothing_moves_while_modules_are_recorded() -> None:
    with recording():
        assert is_recording()
        batch = work()
        assert batch.time.tolist() == [0.0]
    assert not is_recording()
    batch.step(2)
    assert batch.time.tolist() == pytest.approx([2 * batch.model.opt.timestep])


def test_recording_ends_with_an_error() -> None:
    load = wp.Module.load
    with pytest.raises(RuntimeError, match="stop"), recording():
        raise RuntimeError("stop")
    assert not is_recording()
    assert wp.Module.load is load


def test_a_loaded_module_is_in_the_cache(needed: dict[Variant, None]) -> None:
    first = next(iter(needed))
    first.load()
    assert first.is_cached
    assert (cache_folder() / first.folder).is_dir()


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("scene", "robot", "refresh"),
    [("drawer", "sawyer.xml", True), ("parkour", "go1.xml", False), ("parkour", "go1_real.xml", False)],
)
def test_on_a_gpu_the_recorded_modules_are_those_that_the_work_loads(scene: str, robot: str, refresh: bool) -> None:
    device = torch.device("cuda", 0)

    def work() -> None:
        WarpBatch(compile_scene(scene, robot), 3, device, WarpSettings()).step(5, refresh=refresh)
        torch.cuda.synchronize()

    with recording() as found:
        work()
    with loading() as loaded:
        work()
    assert loaded == names(found)
    assert all(each.is_cached for each in found)
