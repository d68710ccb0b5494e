"""Start Ray on this machine, or connect to a cluster, and disconnect at the end."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ray

from polytask.errors import UserError
from polytask.parallel.ray_environment import SETTINGS

FORWARDED = ("MUJOCO_GL", "PYOPENGL_PLATFORM", "OMP_NUM_THREADS")  # variables for workers of another's cluster
PATIENCE = 10.0  # s that a cluster has to answer


@dataclass(frozen=True)
class RayPlace:
    """Where Ray runs.

    Attributes:
        address: HOST:PORT of a cluster that this machine is part of, or auto; empty: Ray is started on this machine.
        cpus: Cores that a Ray on this machine counts with (0: all).
        object_store: Megabytes of memory for what its workers exchange.
        key: The setting that gives the address, for messages.
    """

    address: str = ""
    cpus: int = 0
    object_store: int = 100
    key: str = "ray.address"


@contextmanager
def connected(place: RayPlace) -> Iterator[None]:
    """Stay connected for the length of the block; an earlier connection is kept."""
    if ray.is_initialized():
        yield
        return
    with _kept_handler():
        _start(place)
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


def _start(place: RayPlace) -> None:
    common: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if place.address:
        _check_address(place)
        forwarded = {name: os.environ[name] for name in FORWARDED if name in os.environ}
        try:
            ray.init(place.address, runtime_env={"env_vars": SETTINGS | forwarded}, **common)
        except (ConnectionError, RuntimeError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            hint = "RAY_AUTH_MODE and RAY_AUTH_TOKEN must be those of the cluster"
            raise UserError(f"no Ray cluster at {place.key}={place.address}: {reason}; {hint}") from error
        return
    ray.init(
        "local",
        num_cpus=place.cpus or None,
        include_dashboard=False,
        object_store_memory=place.object_store * 1_000_000,
        **common,
    )


def _check_address(place: RayPlace) -> None:
    """Check that the address answers; Ray itself would try for minutes."""
    address = place.address
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in address:
        raise UserError(f"{place.key}={address}: must be HOST:PORT of a cluster that this machine is part of, or auto")
    try:
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise UserError(f"no Ray cluster at {place.key}={address}: {error}") from error
