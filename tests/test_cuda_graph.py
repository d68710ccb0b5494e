"""Functions that run as captured graphs or compiled kernels."""

import gc
from collections.abc import Iterator

import pytest
import torch

from polytask import cuda_graph
from polytask.cuda_graph import can_compile, fused, no_collection

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)


def double(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


def test_nothing_is_compiled_on_the_cpu_or_against_the_users_wish():
    assert fused(double, CPU, is_wanted=True) is double
    assert fused(double, CUDA, is_wanted=False) is double


def test_a_machine_that_cannot_compile_is_told_once_and_runs_the_plain_function(monkeypatch, capsys):
    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("no compiler")

    can_compile.cache_clear()
    monkeypatch.setattr(cuda_graph.torch, "compile", fail)
    assert fused(double, CUDA, is_wanted=True) is double
    assert fused(double, CUDA, is_wanted=True) is double
    assert capsys.readouterr().err.count("kernels cannot be compiled here (RuntimeError)") == 1
    can_compile.cache_clear()


@pytest.fixture
def collector() -> Iterator[None]:
    """Switch the garbage collector on again after a test."""
    yield
    gc.enable()


def test_no_garbage_is_collected_during_a_capture_even_if_it_fails(collector: None):
    with pytest.raises(RuntimeError, match="no graph"), no_collection():
        assert not gc.isenabled()
        raise RuntimeError("no graph")
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off(collector: None):
    gc.disable()
    with no_collection():
        pass
    assert not gc.isenabled()
