"""Build environments, learners and policies from configs; the commands share it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from polytask import algos
from polytask.algos import AlgoContext
from polytask.runs.checkpoint import load, restore
from polytask.config.compose import compose
from polytask.config.schema import CommonConfig, EvalConfig, RecordConfig, TrainConfig
from polytask.envs.multi_task import MultiTaskEnv
from polytask.errors import UserError
from polytask.envs.scripted import ScriptedPolicy
from polytask.envs.make import make
from polytask.sim import SimConfig
from polytask.envs.suites import SUITE_LEVELS
from polytask.envs.tasks import SUITES
from polytask.types import Algo, EnvSpec

WORLDS_PER_TASK = 16  # where the user names no number
Policy = Callable[[Tensor, Tensor], Tensor]  # obs (N, O), task (N,) -> action (N, A)


def task_names(config: CommonConfig) -> tuple[str, ...]:
    """Name the tasks that a config asks for."""
    return tuple(config.tasks) if config.tasks is not None else tuple(SUITES[config.suite.name])


def levels_of(config: CommonConfig) -> str | None:
    """Name the terrain that a config asks for, itself or through its suite."""
    suite = None if config.tasks is not None else SUITE_LEVELS.get(config.suite.name)
    return suite if config.levels is None else config.levels


def build_env(
    config: CommonConfig,
    *,
    num_envs: int | None = None,
    envs_per_task: Sequence[int] | None = None,
    stagger: bool = False,
) -> MultiTaskEnv:
    """Make the environment that a config describes."""
    env = make(
        tasks=task_names(config),
        num_envs=num_envs,
        envs_per_task=envs_per_task,
        device=config.device,
        sim=None if config.sim.name == "auto" else config.sim.name,
        sim_config=plain(config.sim) if isinstance(config.sim, SimConfig) else None,
        robot=config.robot.name,
        episode_length=config.episode_length,
        reward=config.reward,
        goals=config.goals,
        levels=levels_of(config),
        stagger=stagger,
        seed=config.seed,
        threads=config.threads,
    )
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    return env


def build_train_env(config: TrainConfig) -> MultiTaskEnv:
    """Make the environment that a run trains in."""
    num_envs = config.num_envs
    if num_envs is None and config.envs_per_task is None:
        num_envs = WORLDS_PER_TASK * len(task_names(config))
    return build_env(config, num_envs=num_envs, envs_per_task=config.envs_per_task, stagger=config.stagger)


def tune_torch(device: torch.device) -> None:
    """Choose torch's global settings for a learner on this device."""
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")  # TF32 in matrix products: a fifth less time per update
    elif "OMP_NUM_THREADS" not in os.environ:
        # A pool's threads spin between small operations and take the cores that the physics needs.
        torch.set_num_threads(1)


def plain(config: Any) -> Any:
    """Undo what `config.register` adds: give the table entry's own dataclass, without the name."""
    base = type(config).__mro__[1]
    return base(**{each.name: getattr(config, each.name) for each in fields(base)})


def check_source(config: EvalConfig | RecordConfig) -> None:
    """Insist on exactly one place to take the policy from."""
    if (config.checkpoint is None) == (config.policy is None):
        raise UserError("name one policy: checkpoint=PATH, policy=scripted or policy=random")


def build_policy(config: EvalConfig | RecordConfig, env: MultiTaskEnv) -> Policy:
    """Make the noiseless policy that a config asks for, acting on the tasks of `env`."""
    if config.checkpoint is not None:
        return load_policy(load(config.checkpoint), env)
    if config.policy == "scripted":
        return ScriptedPolicy(env)
    generator = torch.Generator(env.device).manual_seed(config.seed)
    shape = (env.spec.num_envs, env.spec.action_dim)
    return lambda obs, task: 2.0 * torch.rand(shape, generator=generator, device=env.device) - 1.0


def load_policy(state: dict[str, Any], env: MultiTaskEnv) -> Policy:
    """Rebuild a trained policy; the environment may have any of the tasks it was trained on, in any order."""
    spec = EnvSpec(**state["spec"])
    unknown = [task for task in env.spec.tasks if task not in spec.tasks]
    if unknown:
        known = ", ".join(spec.tasks)
        raise UserError(f"the checkpoint does not fit: it was not trained on '{unknown[0]}' but on {known}")
    algo = build_algo(compose("train", [], saved=state["config"]), spec, env.device)
    restore(algo, state["algo"], "learner")
    number = torch.tensor([spec.tasks.index(task) for task in env.spec.tasks], device=env.device)
    return lambda obs, task: algo.act(obs, number[task], explore=False)


def build_algo(config: TrainConfig, spec: EnvSpec, device: torch.device) -> Algo:
    """Make the learner that a config describes."""
    tune_torch(device)
    context = AlgoContext(
        spec=spec,
        device=device,
        net=plain(config.net),
        critic_net=None if config.critic_net is None else plain(config.critic_net),
        grads=plain(config.grads),
        seed=config.seed,
    )
    # A schedule ends with the planned frames; `max_iterations` merely cuts a run short, and must not bend it.
    if config.max_frames is not None:
        context = replace(context, total_frames=config.max_frames)
    return algos.build(plain(config.algo), context)
