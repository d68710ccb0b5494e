"""Start Ray on this machine, or connect to a cluster, and disconnect at the end."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray

from polytask.errors import UserError
from polytask.mtopt.config.run import RayConfig
from polytask.mtopt.runtime.ray.environment import SETTINGS

FORWARDED = ("MUJOCO_GL", "PYOPENGL_PLATFORM", "OMP_NUM_THREADS")  # variables for workers of another's cluster
PATIENCE = 10.0  # s that a cluster has to answer


@contextmanager
def cluster(config: RayConfig) -> Iterator[None]:
    """Stay connected for the length of the block; an earlier connection is kept."""
    if ray.is_initialized():
        yield
        return
    with _kept_handler():
        _start(config)
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _kept_handler() -> Iterator[None]:
    """Keep the handler of SIGTERM: `ray.init` sets one of its own, which ends the process without a word."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        # Only the main thread can set a handler, so in others Ray has not set one either.
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _start(config: RayConfig) -> None:
    common: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if config.address:
        _check_address(config.address)
        forwarded = {name: os.environ[name] for name in FORWARDED if name in os.environ}
        try:
            ray.init(config.address, runtime_env={"env_vars": SETTINGS | forwarded}, **common)
        except (ConnectionError, RuntimeError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            hint = "RAY_AUTH_MODE and RAY_AUTH_TOKEN must be those of the cluster"
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
    """Check that the address answers; Ray itself would try for minutes."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in address:
        raise UserError(f"ray.address={address}: must be HOST:PORT of a cluster that this machine is part of, or auto")
    try:
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise UserError(f"no Ray cluster at ray.address={address}: {error}") from error
