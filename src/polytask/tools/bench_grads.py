"""Measure the cost of gradient methods: PPO's update of actor and critic with each method, on random rows.

No environment is built. The config sets the networks, the minibatch size and the networks that the methods apply to.
The shapes are those of Meta-World. On a CUDA device the update is replayed from a graph, as in training.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

import torch

from polytask.algos import AlgoContext
from polytask.algos.ppo import PPO, PPOConfig
from polytask.config.schema import BenchConfig
from polytask.device import check_device, time_after_work, tune_torch
from polytask.envs.suites import SUITES
from polytask.errors import UserError
from polytask.grads import GRADS
from polytask.result import Result, Table
from polytask.runs.provenance import provenance
from polytask.types import EnvSpec

OBS_DIM, ACTION_DIM = 39, 4
NUM_TASKS = (10, 50)  # if the user gives no numbers
TASKS = SUITES["mt50"]


def bench_grads(config: BenchConfig) -> Result:
    """Run `polytask bench what=grads`."""
    if not isinstance(config.algo, PPOConfig):
        raise UserError("what=grads needs algo=ppo, whose update it measures")
    device = check_device(config.device)
    tune_torch(device)
    counts = NUM_TASKS if config.num_tasks is None else config.num_tasks
    measured = {count: {name: _milliseconds(config, name, count, device) for name in GRADS} for count in counts}
    relative = {count: {name: each / one["mean"] for name, each in one.items()} for count, one in measured.items()}
    payload = {
        "what": "grads",
        "minibatch": _rows(config),
        "apply_to": config.grads.apply_to,
        "net": config.net.name,
        "updates": config.iterations * config.steps,
        "milliseconds": {str(count): one for count, one in measured.items()},
        "relative_to_mean": {str(count): one for count, one in relative.items()},
        **provenance(device),
    }
    columns = ["method", *(f"{unit}, K={count}" for count in counts for unit in ("ms", "x mean"))]
    rows = [[name, *(one[count][name] for count in counts for one in (measured, relative))] for name in GRADS]
    return Result(payload, [Table(f"one update, {_rows(config)} rows", columns, rows)])


def _milliseconds(config: BenchConfig, name: str, num_tasks: int, device: torch.device) -> float:
    """Return the time of one update in ms: the median over `iterations` runs of `steps` updates each."""
    loop = _learner(config, name, num_tasks, device).loop
    loop.run_epochs(max(3, config.warmup))  # one minibatch per epoch; the graph is captured at the third
    samples = []
    for _ in range(config.iterations):
        begin = time_after_work(device)
        for _ in range(config.steps):
            loop.update()
        samples.append(1e3 * (time_after_work(device) - begin) / config.steps)
    return statistics.median(samples)


def _rows(config: BenchConfig) -> int:
    """Return the rows of one update."""
    return int(config.algo.minibatch or config.algo.most_rows)


def _learner(config: BenchConfig, name: str, num_tasks: int, device: torch.device) -> PPO:
    """Build a PPO learner whose rollout is one minibatch of random rows, the same number for every task."""
    if num_tasks > min(len(TASKS), _rows(config)):
        raise UserError(f"num_tasks={num_tasks} must be at most {len(TASKS)}, and at most algo.minibatch")
    each = round(_rows(config) / num_tasks)
    context = AlgoContext(
        spec=EnvSpec(OBS_DIM, ACTION_DIM, TASKS[:num_tasks], (each,) * num_tasks, episode_length=150),
        device=device,
        net=config.net,
        critic_net=config.critic_net,
        grads=GRADS[name][0](apply_to=config.grads.apply_to),
        seed=config.seed,
    )
    algo = PPO(replace(config.algo, horizon=1, minibatch=_rows(config)), context)
    generator = context.generator("rows")
    rows: Any = algo.rows
    for tensor in (rows.obs, rows.action, rows.log_prob, rows.advantage, rows.value, rows.target):
        tensor.normal_(generator=generator)
    return algo
