"""Find the Warp modules that some work launches, without running it.

Warp compiles kernels in modules, one after another, when they are first launched, and keeps them in a cache on disk.
The kernels of a control step depend on the scene: on its sizes and kinds of geoms. So the step runs once with every
launch left out, and the modules of the launches are noted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import mujoco_warp as mjw
import torch
import warp as wp

wp.config.log_level = wp.LOG_ERROR  # otherwise Warp prints a line for every kernel that it loads
wp.init()  # must run before any torch stream is wrapped

_recorded: dict[Variant, None] | None = None  # None while kernels run


@dataclass(frozen=True)
class Variant:
    """A module, compiled for one device and one number of threads per block."""

    module: wp.Module
    device: str
    block_dim: int

    @property
    def folder(self) -> str:
        """Name of its folder in the cache. It contains a hash of the module's source."""
        return str(self.module.get_module_identifier(self.block_dim))

    @property
    def is_cached(self) -> bool:
        """Whether the cache has the module, compiled for this kind of device."""
        device = wp.get_device(self.device)
        return any((cache_folder() / self.folder).glob(f"*.sm{device.arch}*" if device.is_cuda else "*.o"))

    def load(self) -> None:
        """Load the module from the cache, or compile it."""
        self.module.load(self.device, self.block_dim)


def is_recording() -> bool:
    """Return whether launches are noted instead of done."""
    return _recorded is not None


@contextmanager
def recording() -> Iterator[dict[Variant, None]]:
    """Leave out every launch and note its module, in the order of the first launches. Arrays keep their content."""
    global _recorded  # batches ask `is_recording`, and one process records one thing at a time
    found: dict[Variant, None] = {}

    def note_module(module: wp.Module, device: Any, block_dim: int | None = None) -> None:
        """Take the place of `Module.load`. A launch whose module is None returns without doing anything."""
        size = module.options["block_dim"] if block_dim is None else block_dim
        found[Variant(module, wp.get_device(device).alias, size)] = None

    def suggest(kernel: wp.Kernel, device: Any = None) -> tuple[int, int]:
        """Take the place of a question to the compiled kernel. The answer decides how many threads a launch has."""
        if wp.get_device(device).is_cuda:
            note_module(kernel.module, device)
        return 256, 1

    _recorded = found
    try:
        with (
            patch.object(wp.Module, "load", note_module),
            patch.object(wp, "get_suggested_block_size", suggest),
            patch.object(wp, "capture_while", _run_body_once),
            patch.object(wp, "capture_if", _run_both_branches),
        ):
            yield found
    finally:
        _recorded = None


def _run_body_once(condition: wp.array, while_body: Callable[..., None], **arguments: Any) -> None:
    """Take the place of a loop on the device, whose condition would never change."""
    while_body(**arguments)


def _run_both_branches(
    condition: wp.array,
    on_true: Callable[..., None] | None = None,
    on_false: Callable[..., None] | None = None,
    **arguments: Any,
) -> None:
    """Take the place of a branch on the device: either may be needed later."""
    for branch in (on_true, on_false):
        if branch is not None:
            branch(**arguments)


def cache_folder() -> Path:
    """Return Warp's cache of compiled modules."""
    return Path(wp.config.kernel_cache_dir)


def platform_of(device: torch.device) -> tuple[str, ...]:
    """Return what compiled kernels depend on besides their source: versions and the kind of device."""
    kind = wp.get_device(str(device))
    return str(wp.__version__), str(mjw.__version__), f"sm{kind.arch}" if kind.is_cuda else "cpu"
