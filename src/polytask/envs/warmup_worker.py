"""A worker of `envs.warmup`: `python -m polytask.envs.warmup_worker FOLDER INDEX` compiles modules until none is left.

The folder has the list of jobs. A worker claims a module by creating a file there, which only one of them can do.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

from polytask.envs.make import resolve
from polytask.envs.options import EnvOptions
from polytask.envs.warmup import DONE, JOBS_FILE, modules_of
from polytask.sim import WarpSim
from polytask.sim.kernels import Variant

# Modules that take longest to compile, up to half a minute each. They come first, so that none is left at the end.
SLOW = ("wp_ccd_kernel", "wp__primitive_narrowphase", "wp_mujoco_warp._src.forward")


def main(folder: Path, index: int) -> None:
    """Look for the modules of all jobs, and compile those that no other worker has claimed.

    Every worker begins with another job, so that modules that only one batch needs are found early. A job that fails,
    such as a task that a plug-in added, does not keep the worker from the others.
    """
    jobs: list[dict[str, Any]] = json.loads((folder / JOBS_FILE).read_text())
    start, parent = index % len(jobs), os.getppid()
    errors: list[Exception] = []
    for words in (*jobs[start:], *jobs[:start]):
        try:
            modules = modules_of(resolve(_options(words)))
            for variant in sorted(modules, key=lambda each: not each.folder.startswith(SLOW)):
                if os.getppid() != parent:  # the process that waits for the modules was killed
                    return
                if _claim(folder / variant.folder):
                    _compile(variant, folder)
        except Exception as error:  # raised after the other jobs
            errors.append(error)
    if errors:
        raise errors[0]


def _options(words: dict[str, Any]) -> EnvOptions:
    """Return the options of a job, whose groups of options are dictionaries in JSON."""
    groups = {each.name: each.default_factory for each in fields(EnvOptions) if isinstance(words[each.name], dict)}
    made = {name: kind(**words[name]) for name, kind in groups.items() if callable(kind)}
    return EnvOptions(**{**words, **made, "sim": WarpSim(**words["sim"])})


def _claim(path: Path) -> bool:
    """Create a file. Return whether it is new."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _compile(variant: Variant, folder: Path) -> None:
    """Compile a module if the cache does not have it, and leave a note that it is done."""
    begin, is_new = time.perf_counter(), not variant.is_cached
    if is_new:
        variant.load()
    took = {"seconds": time.perf_counter() - begin, "is_new": is_new}
    part = folder / f"{variant.folder}.part"
    part.write_text(json.dumps(took))
    part.replace(folder / f"{variant.folder}{DONE}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
