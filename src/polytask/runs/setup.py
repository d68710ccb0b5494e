"""Build environments, algorithms and policies from configs, for all commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from polytask import algos
from polytask.algos import AlgoContext
from polytask.config.compose import compose
from polytask.config.schema import BenchConfig, EvalConfig, PolicyConfig, TrainConfig
from polytask.device import tune_torch
from polytask.envs.make import check_curriculum, make_env, resolve
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.options import EnvOptions, WorldOptions
from polytask.envs.scripted import ScriptedPolicy
from polytask.errors import UserError
from polytask.files import restore
from polytask.parallel.ranks import ALONE, Ranks
from polytask.policies.files import open_policy
from polytask.runs.checkpoint import load_to_act
from polytask.runs.policy import policy_file
from polytask.settings import check_values
from polytask.types import Algo, EnvSpec, VecEnv

WORLDS_PER_TASK = 16  # if the user gives no number
Policy = Callable[[Tensor, Tensor], Tensor]  # obs (N, O), task (N,) -> action (N, A)


def world_options(config: WorldOptions) -> dict[str, Any]:
    """Return the options of the worlds, without the other settings of a command."""
    return {each.name: getattr(config, each.name) for each in fields(WorldOptions)}


def build_env(config: WorldOptions, ranks: Ranks = ALONE, **options: Any) -> MultiTaskEnv:
    """Build the environment that a config describes.

    Args:
        config: The options of the worlds.
        ranks: The processes that share the worlds.
        options: Fields of `EnvOptions` to add or replace.
    """
    env = make_env(EnvOptions(**{"stagger": False, **world_options(config), **options}), ranks)
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    return env


def build_train_env(config: TrainConfig, ranks: Ranks = ALONE) -> MultiTaskEnv:
    """Build the training environment of a run, with the worlds of this rank."""
    return build_env(config, ranks, **_training_worlds(config))


def check_worlds(config: TrainConfig) -> None:
    """Check that the training environment of a run can be built, without building it.

    Raises:
        UserError: If a name is unknown or a value is invalid.
    """
    resolve(EnvOptions(**{**world_options(config), **_training_worlds(config)}))


def _training_worlds(config: TrainConfig) -> dict[str, Any]:
    """Return the number of worlds of a run, and how their first episodes start.

    Raises:
        UserError: If there are settings of a curriculum, but no curriculum.
    """
    check_curriculum(config)
    num_envs = config.num_envs
    if num_envs is None and config.envs_per_task is None:
        num_envs = WORLDS_PER_TASK * len(config.task_names)
    stagger = config.stagger
    if stagger is None:
        stagger = not getattr(config.algo, "needs_whole_episodes", False)
    return {
        "num_envs": num_envs,
        "envs_per_task": config.envs_per_task,
        "stagger": stagger,
        "exempted_tasks": config.exempted_tasks,
    }


def check_source(config: PolicyConfig) -> None:
    """Check all settings, and that the config names exactly one policy."""
    check_values(config)
    if (config.checkpoint is None) == (config.policy is None):
        raise UserError("name one policy: checkpoint=PATH, policy=scripted, policy=random or policy=pretrained")


def check_noise(config: EvalConfig) -> None:
    """Check that a policy whose exploration noise is asked for has any: only the checkpoint of a run knows it."""
    if config.explore and (config.checkpoint is None or policy_file(config) is not None):
        raise UserError("explore=true needs the checkpoint of a run; a policy file, pretrained or not, has no noise")


def build_policy(config: PolicyConfig | BenchConfig, env: VecEnv, *, explore: bool = False) -> Policy:
    """Build the policy that a config names, for the tasks of `env`.

    Args:
        config: What names the policy.
        env: The worlds.
        explore: Act with exploration noise, as `EvalConfig` says; the config must name the checkpoint of a run.
    """
    if (file := policy_file(config)) is not None:
        policy = open_policy(file, env.device)
        _check_size("policy", policy.info.obs_dim, env)
        return policy.for_tasks(env.spec.tasks)
    if config.checkpoint is not None:
        return load_policy(load_to_act(config.checkpoint), env, explore=explore)
    if config.policy == "scripted":
        return ScriptedPolicy(env)
    generator = torch.Generator(env.device).manual_seed(config.seed)
    shape = (env.spec.num_envs, env.spec.action_dim)
    return lambda obs, task: 2.0 * torch.rand(shape, generator=generator, device=env.device) - 1.0


def spec_of(state: dict[str, Any]) -> EnvSpec:
    """Return the spec of the worlds of a checkpoint; one of an earlier version lacks fields that have a default."""
    saved = state["spec"]
    return EnvSpec(**{each.name: saved[each.name] for each in fields(EnvSpec) if each.name in saved})


def load_policy(state: dict[str, Any], env: VecEnv, *, explore: bool = False) -> Policy:
    """Build a trained policy from a checkpoint, with or without its exploration noise.

    `env` may have any of the training tasks, in any order.
    """
    spec = spec_of(state)
    unknown = [task for task in env.spec.tasks if task not in spec.tasks]
    if unknown:
        known = ", ".join(spec.tasks)
        raise UserError(f"the checkpoint does not fit: it was not trained on '{unknown[0]}', only on {known}")
    _check_size("checkpoint", spec.obs_dim, env)
    algo = build_algo(compose(TrainConfig, [], saved=state["config"]), spec, env.device)
    restore(algo, state["algo"], "algorithm")
    number = torch.tensor([spec.tasks.index(task) for task in env.spec.tasks], device=env.device)
    return lambda obs, task: algo.act(obs, number[task], explore=explore)


def _check_size(what: str, obs_dim: int, env: VecEnv) -> None:
    """Check that worlds show as many numbers as a policy was trained on."""
    if env.spec.obs_dim != obs_dim:
        raise UserError(
            f"the {what} does not fit: its policy was trained on observations of {obs_dim} numbers, and these worlds "
            f"show {env.spec.obs_dim}; in parkour robot, privileged, scan.feet and reality.history change that"
        )


def build_algo(config: TrainConfig, spec: EnvSpec, device: torch.device, ranks: Ranks = ALONE) -> Algo:
    """Build the algorithm that a config describes; `spec` counts the worlds of all ranks."""
    tune_torch(device)
    context = AlgoContext(
        spec=spec,
        device=device,
        net=config.net,
        critic_net=config.critic_net,
        grads=config.grads,
        seed=config.seed,
        ranks=ranks,
    )
    # A schedule ends at `max_frames`. `max_iterations` only stops a run early and must not change the schedule.
    if config.max_frames is not None:
        context = replace(context, total_frames=config.max_frames)
    return algos.build(config.algo, context)
