"""Measure speed and memory: physics alone, the environment, training, or gradient methods."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from polytask.config.schema import BenchConfig
from polytask.device import time_after_work
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.runners import make_runner
from polytask.result import Result, Table
from polytask.runs.provenance import provenance
from polytask.runs.setup import build_algo, build_train_env
from polytask.runs.starts import begin, load_start
from polytask.tools.bench_grads import bench_grads
from polytask.tools.bench_replay import Replay, bench_policy

MIB = 2.0**20
# Calls of the CUDA runtime and driver that start work on the device. A graph counts as one.
LAUNCHES = (
    "cudaLaunchKernel",
    "cuLaunchKernel",
    "cudaGraphLaunch",
    "cuGraphLaunch",
    "cudaMemcpyAsync",
    "cudaMemsetAsync",
)
STEPS_TO_CAPTURE = 4  # two eager steps, the capture and a replay
ACTION_SETS = 16  # number of random action batches, drawn before the timing and used in turn


def bench(config: BenchConfig, alone: Callable[[], AbstractContextManager[Any]] = nullcontext) -> Result:
    """Run `polytask bench`.

    Args:
        config: What to measure.
        alone: A context for the timed part, which may wait until nothing else runs on the machine.
    """
    if config.what == "grads":
        return bench_grads(config)
    begin = time.perf_counter()
    env = build_train_env(config)
    startup = _start(env) - begin
    workload = _workload(config, env)
    for _ in range(config.warmup):
        workload.iterate()
    workload.restart()
    time_after_work(env.device)
    with alone():
        begin = time_after_work(env.device)
        for _ in range(config.iterations):
            workload.iterate()
        seconds = time_after_work(env.device) - begin
    payload = {
        "what": config.what,
        "suite": config.suite if config.tasks is None else list(env.spec.tasks),
        "sim": env.config.sim,
        "num_envs": env.spec.num_envs,
        "policy": workload.policy,
        "frames_per_second": workload.frames * config.iterations / seconds,
        "seconds": seconds,
        "frames": workload.frames * config.iterations,
        "startup_seconds": startup,
        **_memory(env.device),
        "launches_per_step": _launches(env) if config.what == "env" else None,
        "algo": config.algo.name if config.what == "train" else None,
        "init_from": config.init_from,
        **provenance(env.device),
    }
    env.close()
    shown = {name: value for name, value in payload.items() if value is not None}
    return Result(payload, [Table("bench", ("", "value"), list(shown.items()))])


@dataclass(frozen=True)
class Workload:
    """What is timed.

    Attributes:
        iterate: Run one iteration.
        frames: Control steps of all worlds in an iteration.
        policy: Who acts: "random", "scripted", "pretrained" or "checkpoint"; None in training.
        restart: Run between the warm-up and the timed iterations.
    """

    iterate: Callable[[], Any]
    frames: int
    policy: str | None
    restart: Callable[[], None] = lambda: None


def _workload(config: BenchConfig, env: MultiTaskEnv) -> Workload:
    """Return what is timed for physics, the environment or training."""
    if config.what == "train":
        algo = build_algo(config, env.spec, env.device)
        if (start := load_start(config)) is not None:
            begin(algo, env.spec.tasks, start, config)
        return Workload(lambda: algo.iterate(env), algo.frames_per_iteration, None)
    frames = config.steps * env.spec.num_envs
    policy = bench_policy(config, env)
    if policy is not None:
        replay = Replay(env, policy, config.iterations * config.steps)
        return Workload(lambda: replay.run(config.steps), frames, config.policy or "checkpoint", replay.restart)
    generator = torch.Generator(env.device).manual_seed(config.seed)
    shape = (ACTION_SETS, env.spec.num_envs, env.spec.action_dim)
    actions = 2.0 * torch.rand(shape, generator=generator, device=env.device) - 1.0  # (S, N, A)
    step = env.step if config.what == "env" else physics_of(env)

    def iterate() -> None:
        for index in range(config.steps):
            step(actions[index % ACTION_SETS])

    return Workload(iterate, frames, "random")


def physics_of(env: MultiTaskEnv) -> Callable[[Tensor], None]:
    """Return a function that runs the physics of one control step, without observations, rewards and resets."""
    runner = make_runner(env.groups, env.device, env.threads, physics_only=True)
    sizes = [len(group.buffers.action) for group in env.groups]

    def step(action: Tensor) -> None:
        for group, part in zip(env.groups, action.split(sizes), strict=True):
            group.buffers.action.copy_(part)
        runner.run()

    return step


def _memory(device: torch.device) -> dict[str, float | None]:
    """Return the peak memory of the process and the used memory of the device (torch, Warp and driver), in MiB."""
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    if device.type != "cuda":
        return {"peak_memory_mib": host, "device_memory_mib": None}
    free, total = torch.cuda.mem_get_info(device)
    return {"peak_memory_mib": host, "device_memory_mib": (total - free) / MIB}


def _start(env: MultiTaskEnv) -> float:
    """Step until every kernel is loaded and every graph is captured, and return the time in seconds."""
    action = torch.zeros(env.spec.num_envs, env.spec.action_dim, device=env.device)
    for _ in range(STEPS_TO_CAPTURE):
        env.step(action)
    return time_after_work(env.device)


def _launches(env: MultiTaskEnv) -> float | None:
    """Return the number of launches in a control step, or None if no CUDA profiler can count them.

    Only one step is profiled, because the profiler also logs every kernel of every graph. With many scenes these are
    hundreds of thousands.
    """
    if env.device.type != "cuda":
        return None
    from torch.profiler import ProfilerActivity, profile

    action = torch.zeros(env.spec.num_envs, env.spec.action_dim, device=env.device)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        env.step(action)
        torch.cuda.synchronize(env.device)
    count = sum(event.count for event in profiler.key_averages() if event.key.startswith(LAUNCHES))
    return float(count) if count else None
