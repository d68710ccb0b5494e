"""Run a run under Ray; nothing here imports Ray before its environment is set."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from polytask.errors import UserError
from polytask.mtopt.runtime.folder import RunFolder
from polytask.parallel.ray_environment import set_environment

if TYPE_CHECKING:
    from polytask.mtopt.config.run import RunConfig
    from polytask.mtopt.roles import Evaluation
    from polytask.mtopt.runtime.base import Report, Stops


def run_ray(config: RunConfig, report: Report, stops: Stops = ()) -> Evaluation | None:
    """Do all remaining jobs of a run, or those before a stop; see `LocalRuntime.run`.

    Raises:
        UserError: If Ray is not installed, or a worker raises it.
    """
    if find_spec("ray") is None:
        raise UserError("runtime=ray needs an extra: pip install 'polytask[ray]'")
    set_environment(config.ray.address)
    folder = RunFolder(config.root)
    try:
        if folder.root.is_dir():  # a run that is refused is refused before Ray starts and before anything is written
            folder.check_free()
            folder.lock()
            folder.check(config)
        return _run(config, report, folder, stops)
    finally:
        folder.close()


def _run(config: RunConfig, report: Report, folder: RunFolder, stops: Stops) -> Evaluation | None:
    from polytask.mtopt.runtime.ray.cluster import cluster
    from polytask.mtopt.runtime.ray.runtime import RayRuntime

    with cluster(config.ray):
        runtime = RayRuntime(config, report, folder)
        try:
            return runtime.run(stops)
        finally:
            runtime.close()
