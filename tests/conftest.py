"""Settings and fixtures of all tests.

polytask is imported for the environment variables that it sets, such as the limit on the CPU's instructions. So every
test and every process that a test starts has them, also one that imports torch alone. Torch uses one thread, because
the operations of the tests are small and the idle threads of a pool occupy other cores. Without a GPU, Triton
interprets its kernels. Triton reads the variable for that when it is first imported.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

import polytask  # noqa: F401  sets environment variables, which must be before torch's first product

torch.set_num_threads(1)
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip the tests marked `gpu` where there is none."""
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")


@contextmanager
def _without_waiting() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls this check a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.fixture
def without_waiting():
    """Return a context manager inside which waiting for the GPU is an error."""
    return _without_waiting
