"""Measure where the time goes until a run learns, and what its evaluation costs: seconds per phase.

    python benchmarks/startup_profile.py suite=mt50 num_envs=24576 device=cuda [key=value ... of polytask train]

The phases follow each other and add up to the total. The parts are inside the phases and partly inside each other.
Their seconds are those of the host: a part that only enqueues work of the GPU is short. Run it twice: the first run
fills the caches.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

BEGIN = time.perf_counter()
EVAL_EPISODES = 50

phases: dict[str, float] = {}
parts: dict[str, list[float]] = {}


@contextmanager
def phase(name: str, wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Add the seconds of a block to a phase; `wait` waits for the device."""
    begin = time.perf_counter()
    yield
    wait()
    phases[name] = phases.get(name, 0.0) + time.perf_counter() - begin


def measure(owner: Any, name: str, label: str | None = None) -> None:
    """Replace a function by one that also notes its seconds."""
    function = getattr(owner, name)

    def timed(*arguments: Any, **options: Any) -> Any:
        begin = time.perf_counter()
        try:
            return function(*arguments, **options)
        finally:
            parts.setdefault(label or name, []).append(time.perf_counter() - begin)

    setattr(owner, name, timed)


def measure_parts(uses_warp: bool) -> None:
    """Measure the functions that the start consists of."""
    import torch

    from polytask import cuda_graph
    from polytask.envs import make, warmup
    from polytask.envs.manipulation import worlds

    measure(make, "prepare", "look for kernels, compile them if needed")
    measure(warmup, "modules_of", "- find the modules of a batch")
    measure(worlds, "compile_scene", "compile MJCF")
    measure(worlds, "make_worlds", "make a batch")
    measure(worlds.TaskWorlds, "__init__", "settle a task")
    measure(worlds.ManipulationGroup, "reset", "reset a group")
    measure(cuda_graph.Graphed, "_on_side_stream", "torch: eager call before a capture")
    measure(torch.cuda.graph, "__enter__", "torch: begin a capture")
    measure(torch.cuda.graph, "__exit__", "torch: end a capture")
    if uses_warp:
        import mujoco_warp as mjw
        import warp as wp

        from polytask.sim.warp import WarpBatch

        measure(mjw, "put_model", "- put_model")
        measure(mjw, "make_data", "- make_data")
        measure(WarpBatch, "_capture", "Warp: capture a control step")
        measure(WarpBatch, "_advance", "- enqueue a control step, eagerly or into a graph")
        measure(wp, "capture_end", "- end a capture")
        measure(wp.Module, "get_module_hash", "Warp: hash modules")
        measure(wp.Module, "load", "Warp: load modules (with their hashes)")


def main(words: list[str]) -> None:
    """Start a run, learn for three iterations, evaluate, and print the seconds."""
    with phase("import torch"):
        import torch
    with phase("import polytask"):
        from publish import origin

        from polytask.config.compose import compose
        from polytask.config.schema import TrainConfig
        from polytask.runs.evaluate import Evaluator
        from polytask.runs.setup import build_algo, build_train_env
    config = compose(TrainConfig, words)
    is_cuda = str(config.device).startswith("cuda")
    uses_warp = config.sim.name == "warp" or (config.sim.name == "auto" and is_cuda)
    with phase("import warp"):
        if uses_warp:
            import polytask.sim.warp  # noqa: F401

    def wait() -> None:
        if is_cuda:
            torch.cuda.synchronize()

    with phase("open the device", wait):
        torch.zeros(1, device=config.device)
    measure_parts(uses_warp)
    with phase("build the environment", wait):
        env = build_train_env(config)
    with phase("build the algorithm", wait):
        algo = build_algo(config, env.spec, env.device)
    action = torch.zeros(env.spec.num_envs, env.spec.action_dim, device=env.device)
    for index in range(1, 5):
        with phase(f"step {index}", wait):
            env.step(action)
    for index in range(1, 4):
        with phase(f"iteration {index}", wait):
            algo.iterate(env)
    started = time.perf_counter() - BEGIN
    with phase("build the evaluation", wait):
        evaluator = Evaluator(config, EVAL_EPISODES)
    with phase("evaluate", wait):
        evaluator.run(lambda obs, task: algo.act(obs, task, explore=False))
    detail = {name: {"calls": len(each), "seconds": sum(each)} for name, each in parts.items()}
    result = {**origin(str(config.device)), "phases": phases, "parts": detail, "start_seconds": started}
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
