"""Start Ray on this machine, or join a cluster, and leave nothing behind."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray

from polytask.errors import UserError
from polytask.mtopt.config.run import RayConfig
from polytask.mtopt.runtime.ray import SETTINGS

PASSED_ON = ("MUJOCO_GL", "PYOPENGL_PLATFORM", "OMP_NUM_THREADS")  # to workers of a cluster that others started
LEAST_MEMORY = 80  # MB that Ray asks for
PATIENCE = 10.0  # s for a cluster to answer


@contextmanager
def cluster(config: RayConfig) -> Iterator[None]:
    """Be connected for as long as the block lasts; a connection that was there before stays."""
    if ray.is_initialized():
        yield
        return
    _start(config)
    try:
        yield
    finally:
        ray.shutdown()


def _start(config: RayConfig) -> None:
    if config.object_store < LEAST_MEMORY:
        raise UserError(f"ray.object_store={config.object_store}: at least {LEAST_MEMORY} MB are needed")
    common: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if config.address:
        _check_address(config.address)
        passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        try:
            ray.init(config.address, runtime_env={"env_vars": SETTINGS | passed}, **common)
        except (ConnectionError, RuntimeError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            hint = "are RAY_AUTH_MODE and RAY_AUTH_TOKEN those of the cluster?"
            raise UserError(f"no Ray cluster at ray.address={config.address}: {reason}; {hint}") from error
        return
    ray.init(
        "local",
        num_cpus=config.cpus or None,
        include_dashboard=False,
        object_store_memory=config.object_store * 1_000_000,
        **common,
    )


def _check_address(address: str) -> None:
    """Knock first: Ray itself would try for minutes."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in address:
        raise UserError(f"ray.address={address}: HOST:PORT of a cluster that this machine is part of, or auto")
    try:
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise UserError(f"no Ray cluster at ray.address={address}: {error}") from error
