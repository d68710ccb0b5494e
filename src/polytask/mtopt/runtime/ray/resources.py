"""What each worker asks Ray for: a share of a CPU, and of a GPU if it computes on one.

All workers ask for the same share, 1 / k with the smallest k for which all of them fit: as much as there is for each. A
worker that has asked for a GPU, or a part of one, sees only that GPU; Ray spreads the workers over all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from polytask.errors import UserError
from polytask.mtopt.config.run import RunConfig

FINEST = 10_000  # Ray counts in parts of 1 / 10,000


@dataclass(frozen=True)
class Workers:
    """How many workers need a resource."""

    here: int  # on the driver's machine
    anywhere: int


@dataclass(frozen=True)
class Resources:
    """What a worker asks for."""

    cpus: float
    gpus: float

    def options(self) -> dict[str, Any]:
        """Return the options of an actor."""
        return {"num_cpus": self.cpus, "num_gpus": self.gpus}


class Requests:
    """The requests of all workers of a run."""

    def __init__(self, config: RunConfig, machines: Mapping[str, Mapping[str, float]], here: str) -> None:
        """Divide the resources of a cluster.

        Args:
            config: Of the run.
            machines: Id -> `CPU` and `GPU` of each machine.
            here: Id of the driver's machine.

        Raises:
            UserError: If the workers do not fit into the cluster.
        """
        ray, self._config = config.ray, config
        graders = ray.graders if ray.graders > 1 else 0
        learns, acts = uses_gpu(config.device), uses_gpu(config.world.device)
        # On the driver's machine: writer, labeller, replay, trainer and evaluator. The writer computes nothing.
        cpu = Workers(5 + graders, ray.collectors + ray.updaters)
        gpu = Workers((3 + graders) * learns + acts, ray.collectors * acts + ray.updaters * learns)
        cpus = {name: float(has.get("CPU", 0.0)) for name, has in machines.items()}
        gpus = {name: float(has.get("GPU", 0.0)) for name, has in machines.items()}
        self._cpus = divided(cpus, here, cpu, ray.worker_cpus, "ray.worker_cpus")
        self._gpus = divided(gpus, here, gpu, ray.worker_gpus, "ray.worker_gpus")

    def here(self, device: str | None) -> Resources:
        """Return what a worker on the driver's machine asks for; `device` is where it computes, if anywhere."""
        return Resources(self._cpus[0], self._gpus[0] if device is not None and uses_gpu(device) else 0.0)

    def anywhere(self, device: str) -> Resources:
        """Return what a collector or updater asks for."""
        return Resources(self._cpus[1], self._gpus[1] if uses_gpu(device) else 0.0)

    def config_of(self, resources: Resources) -> RunConfig:
        """Return the settings of a worker: one that sees a single GPU calls it `cuda`, whatever its number is."""
        config = self._config
        if not resources.gpus:
            return config
        world = replace(config.world, device=config.world.device.partition(":")[0])
        return replace(config, device=config.device.partition(":")[0], world=world)


def uses_gpu(device: str) -> bool:
    """Return whether a device is a GPU."""
    return device.partition(":")[0] == "cuda"


def divided(
    amounts: Mapping[str, float], here: str, workers: Workers, wanted: float | None, key: str
) -> tuple[float, float]:
    """Return the share of a worker on the driver's machine and of one anywhere.

    Args:
        amounts: Id -> CPUs or GPUs of each machine.
        here: Id of the driver's machine.
        workers: How many need this resource.
        wanted: What each worker that may be anywhere asks for; None for the largest share that fits.
        key: The setting that holds `wanted`, for messages.

    Raises:
        UserError: If the workers do not fit.
    """
    asks_here = workers.here if amounts[here] > 0 else 0  # a machine that has none cannot be asked for any
    if not sum(amounts.values()):
        if wanted and workers.anywhere:
            raise UserError(f"{key}={wanted:g} is not valid; the cluster has none")
        return 0.0, 0.0
    for parts in range(1, FINEST + 1):
        share = 1.0 / parts
        asked = share if wanted is None else wanted
        left = {**amounts, here: amounts[here] - share * asks_here}
        if left[here] > -1e-9 and (not asked or _room(list(left.values()), asked) >= workers.anywhere):
            return _rounded(share) if asks_here else 0.0, _rounded(asked)
    total = sum(amounts.values())
    raise UserError(
        f"{workers.anywhere} collectors and updaters with {key}={wanted or 0:g} do not fit into the {total:g} that the "
        "cluster has"
    )


def _room(amounts: Sequence[float], asked: float) -> int:
    """Return how many workers fit into the machines."""
    return sum(int(amount / asked + 1e-9) for amount in amounts)


def _rounded(share: float) -> float:
    """Round down to what Ray can count."""
    return int(share * FINEST + 1e-6) / FINEST
