"""Where the runs of a sweep go: how many at once, on which devices, and what must be true before the first starts."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path

import torch

from polytask.config.launching import LaunchConfig
from polytask.config.schema import TrainConfig
from polytask.device import check_device
from polytask.errors import UserError
from polytask.runs.provenance import RUNS_ON_DEVICE
from polytask.runs.run import check_config
from polytask.runs.setup import check_worlds
from polytask.runs.sweep.clusters import RayLauncher, SlurmLauncher
from polytask.runs.sweep.grid import Setting
from polytask.runs.sweep.local import Launcher, LocalLauncher
from polytask.runs.sweep.pool import Slots

VISIBLE = "CUDA_VISIBLE_DEVICES"
COMPILERS = "TORCHINDUCTOR_COMPILE_THREADS"  # processes that torch.compile starts in each run
QUEUES, ALL_QUEUES = "CUDA_DEVICE_MAX_CONNECTIONS", 32  # of a GPU; a run by itself takes all (`polytask.__init__`)


def jobs_of(config: LaunchConfig) -> int:
    """Return the number of runs at once."""
    return config.jobs or len(config.devices or [0])


def slots_of(config: LaunchConfig, waiting: int) -> Slots:
    """Return the places of the runs. Several runs on this machine share its cores and its GPUs evenly.

    Args:
        config: The settings of the command.
        waiting: The number of runs that are not complete.
    """
    jobs = min(jobs_of(config), waiting)
    if config.launcher != "local":
        return Slots([_told_on_cluster(config)] * jobs)
    share = max(1, len(os.sched_getaffinity(0)) // jobs)
    common = {} if jobs == 1 or COMPILERS in os.environ else {COMPILERS: str(share)}
    devices = [{}] if config.devices is None else [{VISIBLE: _visible(each)} for each in config.devices]
    together = math.ceil(jobs / len(devices))  # runs on one GPU
    if together > 1 and os.environ.get(QUEUES, str(ALL_QUEUES)) == str(ALL_QUEUES):  # the user has chosen nothing else
        # With CUDA's multi-process service, a fourth run that asked for 32 queues got "out of memory".
        common[QUEUES] = str(max(1, ALL_QUEUES // together))
    places = [place % len(devices) for place in range(jobs)]
    told = None if RUNS_ON_DEVICE in os.environ else places  # the user says it for all runs
    return Slots([{**common, **devices[at]} for at in places], share if jobs > 1 else None, told)


def _told_on_cluster(config: LaunchConfig) -> dict[str, str]:
    """Return the variable that tells a run how many share a GPU of a cluster, at most.

    It is not told if runs use no GPU, or the user says it for all runs.
    """
    if config.gpus == 0.0 or RUNS_ON_DEVICE in os.environ:
        return {}
    return {RUNS_ON_DEVICE: str(max(1, math.floor(1.0 / config.gpus)))}


def launcher_of(config: LaunchConfig, root: Path) -> Launcher:
    """Return the launcher; that of a cluster is connected to it."""
    if config.launcher == "ray":
        return RayLauncher(config)
    return SlurmLauncher(config, root) if config.launcher == "slurm" else LocalLauncher()


def check_start(settings: Sequence[Setting], config: LaunchConfig) -> None:
    """Check what a run would find out only when it starts.

    Raises:
        UserError: If an extra or a device is missing, or the worlds of a setting cannot be built.
    """
    for setting in settings:
        one = setting.config
        check_config(one)
        if config.launcher == "local":  # the machines of a cluster may have other devices
            _check_devices(one, config.devices)
            check_worlds(one)


def _check_devices(one: TrainConfig, devices: Sequence[int] | None) -> None:
    """Check that the devices exist, and that the setting leaves the choice of the device to the sweep."""
    if devices is None:
        check_device(one.device)
        return
    if one.device != "cuda":
        raise UserError(f"devices={list(devices)} chooses among GPUs, but device={one.device}; give device=cuda")
    for index in devices:
        check_device(torch.device("cuda", index), "devices")


def _visible(index: int) -> str:
    """Return the name by which a run sees only this GPU; the GPUs that this process sees may be a choice already."""
    names = [name for name in os.environ.get(VISIBLE, "").split(",") if name]
    return names[index] if index < len(names) else str(index)
