"""Describe what a number was measured with: version, commit and machine."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import torch

import polytask
from polytask.errors import UserError

RUNS_ON_DEVICE = "POLYTASK_RUNS_ON_DEVICE"  # the environment variable with which a sweep tells a run


def provenance(device: torch.device) -> dict[str, str | None]:
    """Return the device, the versions and the commit."""
    return {
        "device": device_name(device),
        "version": polytask.__version__,
        "commit": commit(),
        "torch": torch.__version__,
    }


def runs_on_device() -> int | None:
    """Return the number of runs that share the device at most, this one included; None if nobody has said.

    Sweeps say it by the environment variable POLYTASK_RUNS_ON_DEVICE. Set it for runs that you start together by hand.

    Raises:
        UserError: If the variable is not a number.
    """
    text = os.environ.get(RUNS_ON_DEVICE)
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise UserError(f"{RUNS_ON_DEVICE}='{text}' is not valid; it must be a number of runs, at least 1")
    return int(text)


def device_name(device: torch.device) -> str:
    """Return the full name of a GPU, or of the CPU with its number of cores."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    name = models[0] if models else platform.processor() or platform.machine()
    return f"{name} ({len(os.sched_getaffinity(0))} cores)"


def commit() -> str | None:
    """Return the commit of the source tree, with the suffix "-dirty" if files differ from it.

    For a copy without Git history, set the environment variable POLYTASK_COMMIT.
    """
    if "POLYTASK_COMMIT" in os.environ:
        return os.environ["POLYTASK_COMMIT"]
    folder = Path(__file__).resolve().parents[1]
    if not (folder.parents[1] / ".git").exists():  # an installed package may be inside another repository
        return None
    command = ["git", "-C", str(folder), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
