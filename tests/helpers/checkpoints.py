"""Checkpoints of runs that never saw a world: an algorithm with random weights and statistics."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import torch

from polytask.config.compose import compose, to_plain
from polytask.config.schema import TrainConfig
from polytask.plugins.needs import used_plugins
from polytask.runs.checkpoint import save
from polytask.runs.setup import build_algo
from polytask.types import Algo, EnvSpec

TASKS = ("reach", "push", "drawer-open")
SMALL = {"sac": ["algo.capacity=64"], "fast_td3": ["algo.capacity=64"], "grpo": ["stagger=false"]}


def write_checkpoint(path: Path, *words: str, tasks: tuple[str, ...] = TASKS, sizes: tuple[int, int] = (39, 4)) -> Algo:
    """Write a checkpoint of an untrained algorithm whose statistics are not trivial, and return the algorithm."""
    algo_name = next((word.partition("=")[2] for word in words if word.startswith("algo=")), "ppo")
    listed = f"tasks=[{','.join(tasks)}]"
    config = compose(TrainConfig, [listed, "num_envs=6", "max_iterations=1", *words, *SMALL.get(algo_name, [])])
    scale = tuple(0.5 + index / sizes[0] for index in range(sizes[0]))  # of `normalize=fixed`
    spec = EnvSpec(*sizes, tasks, (2,) * len(tasks), episode_length=12, obs_scale=scale)
    algo = build_algo(config, spec, torch.device("cpu"))
    norm, generator = algo.networks()["obs_norm"], torch.Generator().manual_seed(1)
    obs = torch.randn(400, len(tasks), sizes[0], generator=generator)
    spread = torch.rand(sizes[0], generator=generator)
    spread[0] = 0.0  # a constant entry, whose smallest standard deviation is a setting
    norm.update(obs * spread + 0.5, torch.arange(len(tasks)))
    needs = used_plugins(config, tasks)
    state = {
        "config": to_plain(config),
        "plugins": needs,
        "spec": asdict(spec),
        "algo": algo.state_dict(),
        "env": {},
        "window": {},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    save(path, {**state, "iteration": 1, "frames": 96, "seconds": 1.0, "initialization": None})
    return algo


def rows(algo: Algo, tasks: int = len(TASKS), count: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    """Return observations near those of the statistics, some far away, and their tasks."""
    norm = algo.networks()["obs_norm"]
    task = torch.arange(tasks).repeat(count)
    mean = norm.mean.float() if hasattr(norm, "mean") else torch.zeros(1, len(norm.scale))
    noise = torch.randn(len(task), mean.shape[1], generator=torch.Generator().manual_seed(2))
    noise[:, 0] *= 1e-3
    obs = mean.expand(tasks, -1)[task] + 2.0 * noise
    obs[0] *= 1e4  # beyond the bound on normalized observations
    return obs, task
