"""`polytask warmup`: compile the physics kernels of an environment ahead of time, as for the image of a container.

It does not compile the updates of a learner (`algo.compile`), which depend on the algorithm and the network; torch has
a cache of its own for those.
"""

from __future__ import annotations

from dataclasses import asdict, fields

from polytask.config.schema import WarmupConfig
from polytask.envs.make import resolve
from polytask.envs.options import EnvOptions, WorldOptions
from polytask.envs.warmup import Compilation, compile_kernels
from polytask.errors import UserError
from polytask.result import Result


def warmup(config: WarmupConfig) -> Result:
    """Run `polytask warmup`."""
    resolved = resolve(EnvOptions(**{each.name: getattr(config, each.name) for each in fields(WorldOptions)}))
    if resolved.sim != "warp":
        line = "nothing to compile: sim=cpu uses MuJoCo, which is compiled already; give device=cuda to prepare a GPU"
        return Result({"sim": resolved.sim, **asdict(Compilation(0, 0, 0, 0, 0.0))}, lines=[line])
    try:
        done = compile_kernels(resolved)
    except ImportError as error:
        raise UserError("sim=warp needs MuJoCo Warp; install it with: pip install 'polytask[gpu]'") from error
    return Result({"sim": resolved.sim, **asdict(done)}, lines=[summary(done)])


def summary(done: Compilation) -> str:
    """Say in one line what was compiled."""
    if not done.batches:
        return "nothing to compile: the cache has the kernels of every batch"
    if not done.compiled:
        return f"nothing to compile: the cache has all {done.modules} modules ({done.seconds:.0f} s to look)"
    batches = "1 batch" if done.batches == 1 else f"{done.batches} batches"
    workers = f"{done.workers} process{'es' * (done.workers > 1)}"
    return f"compiled {done.compiled} of {done.modules} modules for {batches} in {done.seconds:.0f} s, with {workers}"
