"""polytask's worlds for rsl_rl: `OnPolicyRunner(RslRlEnv(polytask.make("mt10", num_envs=4096)), ...)`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rsl_rl.env import VecEnv
from tensordict import TensorDict
from torch import Tensor

from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.task_code import CodedObs


class RslRlEnv(VecEnv):
    """The observation is the group "policy". Time limits are `extras["time_outs"]`, from which rsl_rl bootstraps."""

    def __init__(self, env: MultiTaskEnv, task_code: str = "none") -> None:
        """Wrap an environment; with `task_code="onehot"`, observations tell the task."""
        env.require_copies("RslRlEnv")
        self.env, self._coded = env, CodedObs(env, task_code)
        self.num_envs, self.num_actions = env.num_envs, env.spec.action_dim
        self.max_episode_length, self.device = env.spec.episode_length, env.device
        self.cfg = {name: value for name, value in asdict(env.config.options).items() if name != "sim"}

    @property
    def episode_length_buf(self) -> Tensor:
        """Steps that each world has taken in its episode. (N,)"""
        return self.env.episode_step

    @episode_length_buf.setter
    def episode_length_buf(self, steps: Tensor) -> None:
        self.env.set_episode_step(steps)

    def get_observations(self) -> TensorDict:
        """Return the current observations."""
        return self._group(self.env.obs)

    def step(self, actions: Tensor) -> tuple[TensorDict, Tensor, Tensor, dict[str, Any]]:
        """Apply actions (N, A), clipped to [-1, 1]. Return observations, rewards, ends and extras."""
        step = self.env.step(actions)
        extras = {
            "time_outs": step.truncated,
            "log": {"/success": step.success.float().mean()},  # share of the worlds whose task is done now
        }
        return self._group(step.obs), step.reward, step.terminated | step.truncated, extras

    def _group(self, obs: Tensor) -> TensorDict:
        return TensorDict({"policy": self._coded(obs)}, batch_size=[self.num_envs], device=self.device)
