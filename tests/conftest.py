"""What all tests share.

One torch thread: the tests' operations are small, and a thread pool spins beside whatever else runs. Without a GPU,
Triton interprets its kernels; it asks for that when it is first imported.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

torch.set_num_threads(1)
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")


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
    """A context in which it is an error to wait for the GPU."""
    return _without_waiting
