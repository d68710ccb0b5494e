"""Start the runs of a sweep on a cluster: with Ray, or with Slurm through submitit.

A job of the cluster waits for the process of its run, on whichever machine it is. All machines share the sweep's
folder, so the run is asked to stop by a file there: it then saves as after a signal, however the cluster ends jobs.
"""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from polytask.config.launching import LaunchConfig
from polytask.errors import UserError
from polytask.files import can_write, make_folder, write_text
from polytask.runs.sweep.local import Job, spawn

STOP_FILE = "stop"
LOOK_EVERY = 0.5  # seconds between two looks at the process and at the file
DAY = 24 * 60  # minutes; submitit's own limit would be five minutes


def run_to_end(job: Job) -> int:
    """Run a job on this machine and return its exit code, unless a file asks to stop it before it begins."""
    stop = job.folder / job.log.parent / STOP_FILE
    process, is_told = None, False
    while True:
        number = _asked_to_stop(stop)
        if process is None:
            if number is not None:
                return 128 + number
            process = spawn(job)
        elif number is not None and not is_told:
            is_told = True
            process.send_signal(number)
        if (code := process.poll()) is not None:
            return code
        time.sleep(LOOK_EVERY)


def _asked_to_stop(stop: Path) -> int | None:
    """Return the number of the signal in the file, or None if there is no such file."""
    try:
        return int(stop.read_text())
    except (FileNotFoundError, ValueError):  # an empty file is about to be written
        return None


class ClusterProcess:
    """A job of a cluster."""

    def __init__(self, job: Job) -> None:
        """Prepare a job that is asked to stop by a file; one of an earlier sweep is removed."""
        self._job = job
        self._stop = job.log.parent / STOP_FILE
        with can_write(self._stop):
            self._stop.unlink(missing_ok=True)

    def stop(self, number: int) -> None:
        """Ask it to save and end."""
        make_folder(self._stop.parent)  # that of a job that still waits for its turn does not exist
        write_text(self._stop, str(int(number)))

    def _lost(self, error: Exception) -> int:
        """Write the reason why the cluster lost the job to its log, and return an exit code."""
        line = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        with can_write(self._job.log), self._job.log.open("a") as log:
            log.write(f"polytask: the cluster lost the run: {line}\n")
        return 1


class RayProcess(ClusterProcess):
    """A task of Ray."""

    def __init__(self, job: Job, config: LaunchConfig) -> None:
        """Submit the job. A lost one is not tried again here: the same sweep continues it."""
        import ray

        super().__init__(job)
        task = ray.remote(max_retries=0, num_gpus=config.gpus, num_cpus=config.cpus)(run_to_end)
        self._task = task.remote(job)

    def poll(self) -> int | None:
        """Return the exit code, or None while it waits or runs."""
        import ray

        if not ray.wait([self._task], timeout=0)[0]:
            return None
        try:
            return int(ray.get(self._task))
        except ray.exceptions.RayError as error:
            return self._lost(error)

    def kill(self) -> None:
        """End it at once."""
        import ray

        ray.cancel(self._task, force=True)


class RayLauncher:
    """Submits runs to Ray, which starts each when there are enough free GPUs and cores."""

    def __init__(self, config: LaunchConfig) -> None:
        """Connect to a cluster, or start Ray on this machine.

        Raises:
            UserError: If Ray is not installed, or the cluster does not answer.
        """
        if find_spec("ray") is None:
            raise UserError("launcher=ray needs an extra: pip install 'polytask[ray]'")
        from polytask.parallel.ray_environment import set_environment

        set_environment(config.ray_address)
        from polytask.parallel.ray_cluster import RayPlace, connected

        self._config, self._stack = config, ExitStack()
        self._stack.enter_context(connected(RayPlace(config.ray_address, key="ray_address")))
        self._check_room()

    def _check_room(self) -> None:
        """Check that one run fits into the cluster: Ray itself would wait for ever."""
        import ray

        has: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        for name, wanted in (("GPU", self._config.gpus), ("CPU", float(self._config.cpus))):
            if wanted > has.get(name, 0.0):
                self.close()
                raise UserError(f"a run needs {wanted:g} {name}s ({name.lower()}s=), but Ray has {has.get(name, 0):g}")

    def start(self, job: Job) -> RayProcess:
        """Submit a run."""
        return RayProcess(job, self._config)

    def close(self) -> None:
        """Disconnect."""
        self._stack.close()


class SlurmProcess(ClusterProcess):
    """A job of Slurm."""

    def __init__(self, job: Job, executor: Any) -> None:
        """Submit the job."""
        super().__init__(job)
        self._submitted = executor.submit(run_to_end, job)

    def poll(self) -> int | None:
        """Return the exit code, or None while it waits or runs."""
        if not self._submitted.done():
            return None
        try:
            return int(self._submitted.result())
        except Exception as error:  # submitit passes on whatever ended the job
            return 128 + 15 if self._submitted.state == "CANCELLED" else self._lost(error)

    def stop(self, number: int) -> None:
        """Ask it to save and end; a job that still waits is taken from the queue."""
        super().stop(number)
        if self._submitted.state == "PENDING":
            self._submitted.cancel()

    def kill(self) -> None:
        """End it at once."""
        self._submitted.cancel()


class SlurmLauncher:
    """Submits runs to Slurm."""

    def __init__(self, config: LaunchConfig, root: Path) -> None:
        """Prepare submitit, which keeps its files in the folder `slurm` of the sweep.

        Raises:
            UserError: If submitit is not installed, an option is wrong, or there is no Slurm.
        """
        if find_spec("submitit") is None:
            raise UserError("launcher=slurm needs an extra: pip install 'polytask[slurm]'")
        import submitit

        options = _options(config.slurm or [])
        try:
            self._executor = submitit.AutoExecutor(folder=root / "slurm", cluster=options.pop("cluster", "slurm"))
            self._executor.update_parameters(
                **{
                    "name": "polytask",
                    "timeout_min": DAY,
                    "cpus_per_task": config.cpus,
                    "gpus_per_node": math.ceil(config.gpus),
                    **options,
                }
            )
        except (RuntimeError, ValueError, TypeError, NameError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise UserError(f"submitit refuses launcher=slurm: {reason}") from error

    def start(self, job: Job) -> SlurmProcess:
        """Submit a run."""
        return SlurmProcess(job, self._executor)

    def close(self) -> None:
        """Do nothing: jobs that were asked to stop end by themselves."""


def _options(words: list[str]) -> dict[str, Any]:
    """Read submitit's options: whole numbers as numbers, everything else as text."""
    options: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UserError(f"slurm: '{word}' is not of the form option=value")
        options[name] = int(value) if value.isdigit() else value
    return options
