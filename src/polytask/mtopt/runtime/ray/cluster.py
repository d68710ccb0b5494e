"""The Ray of a run."""

from __future__ import annotations

from contextlib import AbstractContextManager

from polytask.mtopt.config.run import RayConfig
from polytask.parallel.ray_cluster import RayPlace, connected


def cluster(config: RayConfig) -> AbstractContextManager[None]:
    """Stay connected for the length of the block; an earlier connection is kept."""
    return connected(RayPlace(config.address, config.cpus, config.object_store))
