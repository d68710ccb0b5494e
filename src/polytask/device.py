"""Check the torch device of a run, and choose torch's global settings for it."""

from __future__ import annotations

import os
import time

import torch

from polytask.errors import UserError, shown


def check_device(name: str | torch.device, key: str = "device") -> torch.device:
    """Return the device of this name, with its index made explicit.

    Args:
        name: The device.
        key: The setting that names it, for the hint in the error.

    Raises:
        UserError: If the name is not valid, or this machine has no such device.
    """
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise UserError(f"unknown device '{shown(name)}'; valid: cpu, cuda, cuda:N") from error
    if device.type not in ("cpu", "cuda"):
        raise UserError(f"unknown device '{shown(name)}'; valid: cpu, cuda, cuda:N")
    if device.type == "cpu":
        return torch.device("cpu")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    index = device.index or 0
    if index >= count:
        found = f"{count} CUDA device(s)" if count else "no CUDA device"
        raise UserError(f"device '{name}' does not exist: this machine has {found}; use {key}=cpu")
    return torch.device("cuda", index)


def time_after_work(device: torch.device) -> float:
    """Wait until the device has finished its work, and return the time in seconds."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def tune_torch(device: torch.device) -> None:
    """Choose torch's global settings for a learner on this device."""
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")  # TF32 in matrix products: a fifth less time per update
    elif "OMP_NUM_THREADS" not in os.environ:
        # The threads of a pool spin between small operations and occupy the cores that the physics needs.
        torch.set_num_threads(1)
