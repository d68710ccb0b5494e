"""Run the roles side by side under Ray, on one machine or several; any of the workers may die.

The driver holds the controller. It hands out jobs and passes *references* on, never the data: what a collector or an
updater made goes from its machine straight to the writer or the trainer. A worker that dies is replaced and its job
given out again. What must live where the store is (writer, replay, trainer, labeller, evaluator) runs on the driver's
machine; collectors and updaters run anywhere and need no shared disk.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from polytask.errors import UserError

if TYPE_CHECKING:
    from polytask.mtopt.config.run import RunConfig
    from polytask.mtopt.roles import Evaluation
    from polytask.mtopt.runtime.folder import RunFolder

# Ray reads these when it is imported and when it starts.
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is sent anywhere
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # workers see the GPUs of their machine
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # Ray's own words on deaths stay out of stdout, where the result goes
}


def prepare(address: str) -> None:
    """Set what Ray reads when it is imported.

    Ray listens on the network even where one machine is all there is. Whoever lacks the token is turned away then; a
    cluster that others started has rules of its own.
    """
    os.environ.update(SETTINGS)
    if address or "ray" in sys.modules:
        return
    if os.environ.setdefault("RAY_AUTH_MODE", "token") == "token" and "RAY_AUTH_TOKEN_PATH" not in os.environ:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


def run_ray(config: RunConfig, say: Callable[[str], None]) -> Evaluation | None:
    """Do everything that is left of a run and return its last evaluation; None where a person's labels are missing.

    Raises:
        UserError: If Ray is not installed, or what a worker meets is the user's mistake.
    """
    if find_spec("ray") is None:
        raise UserError("runtime=ray needs an extra: pip install 'polytask[ray]'")
    prepare(config.ray.address)
    from polytask.mtopt.runtime.folder import RunFolder

    folder = RunFolder(config.root)
    try:
        if folder.root.is_dir():  # what would refuse the run does so before Ray starts, and nothing is made for it
            folder.lock()
            folder.check(config)
        return _run(config, say, folder)
    finally:
        folder.close()


def _run(config: RunConfig, say: Callable[[str], None], folder: RunFolder) -> Evaluation | None:
    from polytask.mtopt.runtime.ray.cluster import cluster
    from polytask.mtopt.runtime.ray.runtime import RayRuntime

    with cluster(config.ray):
        runtime = RayRuntime(config, say, folder)
        try:
            return runtime.run()
        finally:
            runtime.close()
