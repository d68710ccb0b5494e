"""Settings and fixtures of all tests.

polytask is imported for the environment variables that it sets, such as the limit on the CPU's instructions. So every
test and every process that a test starts has them, also one that imports torch alone. Torch uses one thread, because
the operations of the tests are small and the idle threads of a pool occupy other cores. Without a GPU, Triton
interprets its kernels. Triton reads the variable for that when it is first imported.
"""

import gc
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

import polytask  # noqa: F401  sets environment variables, which must be before torch's first product

torch.set_num_threads(1)
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# The files that take longest come first, so that all workers end at about the same time. Between two files that need
# the same kernels of Warp are others, so that the first has compiled them when the second starts.
LONGEST = (
    "envs/test_multi_task.py",
    "mtopt/runtime/test_ray.py",
    "faults/test_scripts.py",
    "sim/test_parity.py",
    "algos/test_compiled.py",
    "envs/parkour/test_physics.py",
    "config/test_presets.py",
    "mtopt/test_damage.py",
    "runs/reproduce/test_tables.py",
    "mtopt/test_commands.py",
    "runs/sweep/test_command.py",
    "runs/reproduce/test_command.py",
    "plugins/test_template.py",
    "mtopt/label/test_browser.py",
    "cli/test_main.py",
    "nets/test_nets.py",
    "mtopt/runtime/test_local.py",
    "algos/shared/test_off_policy.py",
    "mtopt/store/test_faults.py",
    "runs/test_damage.py",
    "runs/test_transfer.py",
    "test_examples.py",
    "mtopt/test_check.py",
)


def pytest_configure(config: pytest.Config) -> None:
    """Keep the order of the files. Workers would otherwise start with the files of the most tests."""
    config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the longest files to the front."""
    places = {Path(__file__).parent / name: place for place, name in enumerate(LONGEST)}
    if missing := [str(path) for path in places if not path.is_file()]:
        raise pytest.UsageError(f"LONGEST in {__file__} names files that are not there: {', '.join(missing)}")
    items.sort(key=lambda item: places.get(item.path, len(places)))  # the others stay in their order


def pytest_collection_finish() -> None:
    """Exempt what the imports made from garbage collection: it stays, and looking at it slows down all tests."""
    gc.collect()
    gc.freeze()


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
