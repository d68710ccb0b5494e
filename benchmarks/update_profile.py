"""Count the kernels and the time of an algorithm's updates and of its other work, without an environment.

python benchmarks/update_profile.py preset=sac_mt10_gpu --out benchmarks/results/h200_profile_sac.json

The words are those of `polytask bench what=train`. The worlds return the same random numbers at every step and cost no
kernel, so that all work is the learner's. An iteration is measured twice, with the configured number of updates and
with twice as many: the difference is the cost of the updates, the remainder is acting, storing and computing targets.
On a CPU, operations of torch are counted instead of kernels; views do not count.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from publish import origin, publish
from torch import Tensor
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from turns import turn

from polytask.algos.shared.rollout import num_minibatches, task_index
from polytask.config.compose import compose
from polytask.config.schema import BenchConfig
from polytask.device import check_device, time_after_work
from polytask.runs.setup import WORLDS_PER_TASK, build_algo
from polytask.types import EnvSpec, Step

OBS_DIM, ACTION_DIM, EPISODE_LENGTH = 39, 4, 150  # of Meta-World
LARGEST = 15  # kernels that are listed by name
NAME_LENGTH = 90


class StillWorlds:
    """Worlds whose step returns the same random numbers; all episodes end at the same step."""

    def __init__(self, spec: EnvSpec, device: torch.device) -> None:
        """Draw the numbers."""
        self.spec, self.device, self.task = spec, device, task_index(spec, device)
        generator = torch.Generator(device).manual_seed(0)
        worlds = spec.num_envs
        self.obs = torch.randn(worlds, spec.obs_dim, generator=generator, device=device)
        reward = torch.rand(worlds, generator=generator, device=device)
        no, yes = (torch.full((worlds,), flag, device=device) for flag in (False, True))
        self._going = Step(self.obs, self.obs, reward, no, no, no)
        self._ended = replace(self._going, truncated=yes)
        self._clock = 0

    def reset(self) -> Tensor:
        """Start all episodes."""
        self._clock = 0
        return self.obs

    def step(self, action: Tensor) -> Step:
        """Count the step."""
        self._clock += 1
        return self._going if self._clock % self.spec.episode_length else self._ended


class OperationCounter(TorchDispatchMode):
    """Counts the operations of torch that run, by name; views do not count."""

    def __init__(self) -> None:
        """Start at zero."""
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count an operation and run it."""
        is_view = any(each.alias_info is not None and not each.alias_info.is_write for each in func._schema.arguments)
        if not is_view:
            self.counts[str(func.overloadpacket)] += 1
        return func(*args, **(kwargs or {}))


def kernels_of(work: Callable[[], Any], device: torch.device) -> tuple[int, dict[str, list[float]]]:
    """Return the number of kernels of a call, and of the largest ones the count and the time in ms, by name."""
    if device.type == "cpu":
        with OperationCounter() as counter:
            work()
        return counter.counts.total(), {name: [count, 0.0] for name, count in counter.counts.most_common(LARGEST)}
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        work()
        torch.cuda.synchronize(device)
    times: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    # The raw events: turning tens of thousands of them into torch's own objects takes minutes.
    for event in profiler.profiler.kineto_results.events():
        if event.device_type() == DeviceType.CUDA and not event.is_user_annotation():
            name = event.name()[:NAME_LENGTH]
            counts[name] += 1
            times[name] += event.duration_ns() / 1e6
    return counts.total(), {name: [counts[name], round(time, 3)] for name, time in times.most_common(LARGEST)}


def started(config: BenchConfig, env: StillWorlds) -> Any:
    """Return an algorithm whose graphs are captured."""
    algo = build_algo(config, env.spec, env.device)
    for _ in range(max(4, config.warmup)):  # two eager calls, the capture and a replay
        algo.iterate(env)
    return algo


def measure(algo: Any, env: StillWorlds, iterations: int) -> dict[str, Any]:
    """Return the milliseconds and kernels of one iteration."""
    begin = time_after_work(env.device)
    for _ in range(iterations):
        algo.iterate(env)
    milliseconds = 1e3 * (time_after_work(env.device) - begin) / iterations
    kernels, largest = kernels_of(lambda: algo.iterate(env), env.device)
    return {"ms": milliseconds, "kernels": kernels, "largest": largest}


def updates_of(algo: Any, worlds: int) -> float:
    """Return the updates of an iteration."""
    if hasattr(algo, "updates_per_step"):
        return float(algo.steps_per_iteration * algo.updates_per_step)
    rows = (algo.horizon or EPISODE_LENGTH) * worlds
    minibatches = getattr(algo, "minibatches", None)
    return float(algo.epochs * (minibatches or num_minibatches(rows, algo.rows_per_update(rows))))


def profile_of(words: list[str], alone: Callable[[], AbstractContextManager[None]] = nullcontext) -> dict[str, Any]:
    """Measure the algorithm that the words describe, while nothing else runs inside `alone()`."""
    config = compose(BenchConfig, ["what=train", *words])
    device = check_device(config.device)
    tasks = config.task_names
    worlds = (config.num_envs or WORLDS_PER_TASK * len(tasks)) // len(tasks) * len(tasks)
    spec = EnvSpec(OBS_DIM, ACTION_DIM, tuple(tasks), (worlds // len(tasks),) * len(tasks), EPISODE_LENGTH)
    env = StillWorlds(spec, device)
    rate = "updates_per_step" if hasattr(config.algo, "updates_per_step") else "epochs"
    doubled = replace(config.algo, **{rate: 2 * getattr(config.algo, rate)})
    algos = started(config, env), started(replace(config, algo=doubled), env)
    with alone():
        once, twice = (measure(algo, env, config.iterations) for algo in algos)
    updates = updates_of(config.algo, worlds)
    learning = {name: twice[name] - once[name] for name in ("ms", "kernels")}
    return {
        "algo": config.algo.name,
        "net": config.net.name,
        "words": words,
        "num_envs": worlds,
        "unit": "kernels" if device.type == "cuda" else "operations",
        "updates_per_iteration": updates,
        "update": {name: round(value / updates, 4) for name, value in learning.items()},
        "rest_of_iteration": {name: round(once[name] - value, 4) for name, value in learning.items()},
        "iteration": {name: round(once[name], 4) for name in ("ms", "kernels")},
        "largest": once["largest"],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="settings of `polytask bench what=train`, as key=value")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--meet", type=Path, help="folder where profiles that start together take turns")
    parser.add_argument("--of", type=int, default=1, help="number of profiles that meet there")
    options = parser.parse_args()
    name = f"profile-{os.getpid()}"
    result = profile_of(options.words, lambda: turn(options.meet, name, options.of) if options.meet else nullcontext())
    device = "cuda" if result["unit"] == "kernels" else "cpu"
    publish({**result, **origin(device)}, options.out)


if __name__ == "__main__":
    main()
