"""Compile the kernels that an environment needs, on all cores, before it is built.

Warp compiles one module after another in one process. For the scenes of MT50 this takes minutes, once per machine. Here
worker processes share the modules: each looks for the modules of the batches, and compiles those that no other worker
has claimed. Warp's cache on disk, where every module appears whole or not at all, carries the results to this process.
A note beside the cache then tells that a batch is complete, so that later starts do not look again. Nothing depends on
success: a module that is missing when it is first launched is compiled there, as Warp always does.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch

from polytask import scenes
from polytask.envs.domain import EnvConfig
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.render_progress import RenderProgress
from polytask.errors import UserError
from polytask.files.folder_lock import one_at_a_time
from polytask.parallel.ranks import ALONE
from polytask.parallel.worlds import WorldShare
from polytask.result import note
from polytask.sim import WarpSettings

if TYPE_CHECKING:
    from polytask.sim.kernels import Variant

    Found = dict[Path, list[Variant]]  # the modules of each job, by its marker

JOBS_FILE, DONE, LOCK_FILE = "jobs.json", ".done", "compile.lock"
GIB = 2**30
WORKER_MEMORY = 2 * GIB  # of the host; a worker imports torch and Warp
WORKER_DEVICE_MEMORY = GIB  # a CUDA context and one world
WORTH_WORKERS = 4  # missing modules; workers take some seconds to start, in which one process compiles a few
LOOK_EVERY = 0.2  # seconds between two looks at the progress


@dataclass(frozen=True)
class Compilation:
    """What a warm-up did."""

    batches: int  # batches that were not known to be complete
    modules: int  # modules of these batches
    compiled: int  # modules that the cache did not have
    workers: int
    seconds: float
    slowest: tuple[tuple[str, float], ...] = ()  # modules that took longest, with seconds


@dataclass(frozen=True)
class Job:
    """The smallest environment that needs the kernels of one batch."""

    config: EnvConfig
    marker: Path  # exists if the batch is complete; names the folders of its modules in the cache

    @property
    def is_complete(self) -> bool:
        """Whether the cache had all modules of the batch, and still has their folders."""
        try:
            folders = json.loads(self.marker.read_text())
            return all((self.marker.parent.parent / folder).is_dir() for folder in folders)
        except (OSError, ValueError, TypeError):
            return False

    def words(self) -> dict[str, Any]:
        """Return the options of the environment as plain values, from which a worker builds it."""
        options = asdict(self.config.options)
        return {**options, "sim": _settings(self.config), "device": str(self.config.device)}


def _settings(config: EnvConfig) -> dict[str, Any]:
    """Return the settings of Warp, without the name of the backend: `sim=auto` and `sim=warp` share their kernels."""
    return {each.name: getattr(config.sim_config, each.name) for each in fields(WarpSettings)}


def prepare(config: EnvConfig) -> None:
    """Compile the kernels of an environment that is about to be built. If this fails, building it compiles them."""
    try:
        compile_kernels(config, worth_it=WORTH_WORKERS)
    except Exception as error:  # whatever happened, the environment can do without
        note(f"kernels could not be compiled in parallel ({_first_line(error)}); they are compiled one by one")


def compile_kernels(config: EnvConfig, worth_it: int = 1) -> Compilation:
    """Compile what the batches of an environment need and the cache does not have.

    Runs that start at the same time do this one after the other: the first uses all cores, and the others find its
    modules in the cache.

    Args:
        config: The environment. Its `sim` must be `warp`.
        worth_it: Number of missing modules that workers are started for. Fewer are left to the environment.
    """
    begin = time.perf_counter()
    jobs = jobs_of(config)
    with nullcontext() if all(job.is_complete for job in jobs) else _one_process_at_a_time():
        return _compile([job for job in jobs if not job.is_complete], config, worth_it, begin)


@contextmanager
def _one_process_at_a_time() -> Iterator[None]:
    """Keep other processes of this machine from compiling; where the cache is read-only, nobody compiles anyway."""
    from polytask.sim.kernels import cache_folder

    path = cache_folder() / "polytask" / LOCK_FILE
    with ExitStack() as stack:
        with suppress(OSError, UserError):
            path.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(one_at_a_time(path))
        yield


def _compile(jobs: Sequence[Job], config: EnvConfig, worth_it: int, begin: float) -> Compilation:
    """Compile what the jobs need; see `compile_kernels`."""
    found = _find(jobs[:1])
    if not _missing(found):
        # Perhaps all modules are there, compiled without workers, and only the notes are missing.
        found = {**found, **_find(jobs[1:])}
    took: dict[str, dict[str, Any]] = {}
    workers = 0
    if len(_missing(found)) >= worth_it:
        workers = _worker_count(config.device)
        found, took = _share_work(jobs, found, workers)
    for marker, modules in found.items():
        if all(each.is_cached for each in modules):
            _write_marker(marker, [each.folder for each in modules])
    names = {each.folder for modules in found.values() for each in modules}
    seconds = {module: each["seconds"] for module, each in took.items() if each["is_new"]}
    slowest = tuple(sorted(seconds.items(), key=lambda pair: -pair[1])[:5])
    return Compilation(len(jobs), len(names), len(seconds), workers, time.perf_counter() - begin, slowest)


def _find(jobs: Sequence[Job]) -> Found:
    """Return the modules of each job. Their hashes, which take a while, are needed in any case to load them."""
    return {job.marker: modules_of(job.config) for job in jobs}


def _missing(found: Found) -> set[str]:
    """Return the names of the modules that the cache does not have."""
    return {each.folder for modules in found.values() for each in modules if not each.is_cached}


def _share_work(jobs: Sequence[Job], found: Found, count: int) -> tuple[Found, dict[str, dict[str, Any]]]:
    """Let workers compile the modules of all jobs.

    Args:
        jobs: The jobs.
        found: The modules of some of the jobs.
        count: Number of workers.

    Returns:
        The modules of all jobs, and what the workers said about each module: its seconds and whether it was missing.
    """
    began = time.monotonic()
    with TemporaryDirectory(prefix="polytask-kernels-") as name:
        folder = Path(name)
        (folder / JOBS_FILE).write_text(json.dumps([job.words() for job in jobs]))
        with _workers(folder, count) as workers:
            found = {**found, **_find([job for job in jobs if job.marker not in found])}
            names = sorted({each.folder for modules in found.values() for each in modules})
            # Large modules come first, so that a few of them tell little about the rest.
            _wait(workers, folder, RenderProgress("compiling kernels, once per machine", len(names), began, enough=0.3))
        took = {module: json.loads(text) for module in names if (text := _read(folder / f"{module}{DONE}"))}
        if len(took) < len(names):
            _explain_failure(workers, folder)
    return found, took


def jobs_of(config: EnvConfig) -> list[Job]:
    """Return one job for each batch of an environment, with one world of each task: kernels do not depend on more."""
    from polytask.sim.kernels import cache_folder, platform_of

    jobs = []
    for batch in config.domain.share_batches(config):
        tasks = tuple(task for task, _ in batch)
        names, ones = [task.name for task in tasks], (1,) * len(tasks)
        options = replace(config.options, tasks=names, num_envs=None, envs_per_task=list(ones), threads=1)
        share = WorldShare(ALONE, ones, config.device)
        smallest = replace(config, options=options, tasks=tasks, envs_per_task=ones, share=share)
        files = list(dict.fromkeys(getattr(task, "scene", config.domain.name) for task in tasks))
        facts = (*platform_of(config.device), scenes.digest(), files, config.robot.file, _settings(config))
        key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
        jobs.append(Job(smallest, cache_folder() / "polytask" / f"{files[0]}-{key}.json"))
    return jobs


def modules_of(config: EnvConfig) -> list[Variant]:
    """Return the modules that building an environment and stepping it once launches, without launching them."""
    from polytask.sim.kernels import recording

    with recording() as found:
        env = MultiTaskEnv(config)
        for group in env.groups:
            group.simulate()
        env.close()
    return list(found)


def _worker_count(device: torch.device) -> int:
    """Return the number of cores, or less if the memory is small."""
    limits = [len(os.sched_getaffinity(0)), _available_memory() // WORKER_MEMORY]
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        limits.append(free // WORKER_DEVICE_MEMORY)
    return max(1, min(limits))


def _available_memory() -> int:
    """Return the memory of the host that programs can still get, in bytes."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))


@contextmanager
def _workers(folder: Path, count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start worker processes, and end those that still run when the context is left."""
    from polytask.sim.kernels import cache_folder

    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "WARP_CACHE_PATH": str(cache_folder().parent),  # Warp adds its version
        "OMP_NUM_THREADS": "1",  # the workers share the cores already
    }
    workers: list[subprocess.Popen[bytes]] = []
    try:
        for index in range(count):
            with (folder / f"{index}.log").open("wb") as log:
                command = [sys.executable, "-m", "polytask.envs.warmup_worker", str(folder), str(index)]
                null = subprocess.DEVNULL
                workers.append(subprocess.Popen(command, stdin=null, stdout=log, stderr=log, env=environment))
        yield workers
    finally:
        for worker in workers:
            worker.terminate()  # has no effect on one that has ended
        for worker in workers:
            worker.wait()


def _wait(workers: Sequence[subprocess.Popen[bytes]], folder: Path, progress: RenderProgress) -> None:
    """Wait until all modules are done or all workers have ended, and show the progress."""
    with progress:
        while not progress.is_over:
            have_ended = all(worker.poll() is not None for worker in workers)
            progress.advance(len(list(folder.glob(f"*{DONE}"))) - progress.done)
            if have_ended:
                break
            time.sleep(LOOK_EVERY)


def _explain_failure(workers: Sequence[subprocess.Popen[bytes]], folder: Path) -> None:
    """Say why modules are missing, in one line."""
    codes = [worker.wait() for worker in workers]
    failed = next((index for index, code in enumerate(codes) if code > 0), None)
    lines = [] if failed is None else _read(folder / f"{failed}.log").strip().splitlines()
    reason = f" ({lines[-1]})" if lines else ""
    note(f"kernels could not all be compiled in parallel{reason}; the rest are compiled one by one")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _read(path: Path) -> str:
    """Return the content of a file, or nothing if there is no such file."""
    return path.read_text(errors="replace") if path.is_file() else ""


def _write_marker(path: Path, modules: Sequence[str]) -> None:
    """Note that a batch is complete. Where the cache is read-only, later starts look again."""
    try:
        path.parent.mkdir(exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(list(modules)))
        part.replace(path)
    except OSError:
        return
