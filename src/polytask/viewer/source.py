"""From settings to worlds and a policy, and which ones a person may choose while watching."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from polytask.config.watching import PlayConfig
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.tasks import TASKS
from polytask.errors import UserError
from polytask.runs.checkpoint import locate
from polytask.runs.evaluate import set_goals, training_goals
from polytask.runs.policy import saved_settings as policy_settings
from polytask.runs.setup import Policy, build_env, build_policy, check_source
from polytask.viewer.session import Session

CHECKPOINT = "checkpoint"
ALL_TASKS = "all"


def with_run(config: PlayConfig) -> PlayConfig:
    """Return settings whose checkpoint is that of the run to follow, if there is one.

    Raises:
        UserError: If they also name another policy.
    """
    if config.run is None:
        return config
    if config.checkpoint is not None or config.policy is not None:
        raise UserError("run=RUN follows the newest checkpoint of a run; leave out checkpoint= and policy=")
    return replace(config, checkpoint=config.run)


def saved_settings(config: PlayConfig) -> dict[str, Any] | None:
    """Return the settings that come with the policy; see `polytask.runs.policy`."""
    return policy_settings(with_run(config))


def checked(config: PlayConfig) -> PlayConfig:
    """Return the settings with which the first worlds are built."""
    config = with_run(config)
    check_source(config)
    if config.chosen_levels == "curriculum":  # that is for training
        config = replace(config, levels="hard")
    return config


def policies(config: PlayConfig) -> list[str]:
    """Return the policies to choose from."""
    return [*([CHECKPOINT] if config.checkpoint is not None else []), "pretrained", "scripted", "random"]


def tasks() -> list[str]:
    """Return the tasks to choose from: all of the command's at once, or any single one."""
    return [ALL_TASKS, *TASKS]


def chosen(config: PlayConfig, policy: str, task: str) -> PlayConfig:
    """Return the settings with another policy and other tasks; `config` are those of the command."""
    if policy != CHECKPOINT:
        config = replace(config, policy=policy, checkpoint=None)
    return replace(config, task=None if task == ALL_TASKS else task)


def build(config: PlayConfig) -> Session:
    """Build worlds and policy.

    Raises:
        UserError: If the policy does not fit the tasks, or a setting does not fit the domain.
    """
    if config.task is not None:
        config = replace(config, tasks=[config.task])
    count = max(config.worlds, len(config.task_names))
    env = build_env(config, num_envs=count)
    try:
        if goals := training_goals(config):
            set_goals(env, goals)
        return Session(env, build_policy(config, env), config.speed)
    except BaseException:
        env.close()
        raise


class Follower:
    """Looks whether the checkpoint of a run has changed."""

    def __init__(self, config: PlayConfig) -> None:
        """Remember the present checkpoint."""
        self._config = config
        self._seen = self._stamp()

    def _stamp(self) -> tuple[int, int]:
        """Return what identifies the present file: a new checkpoint replaces it."""
        assert self._config.checkpoint is not None
        status = Path(locate(self._config.checkpoint)).stat()
        return status.st_mtime_ns, status.st_ino

    def newer(self, env: MultiTaskEnv) -> Policy | None:
        """Return the policy of a checkpoint that was written since the last call, if there is one."""
        stamp = self._stamp()
        if stamp == self._seen:
            return None
        self._seen = stamp
        return build_policy(self._config, env)
