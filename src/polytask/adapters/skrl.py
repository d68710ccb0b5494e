"""polytask's worlds for skrl: pass `SkrlEnv(polytask.make("mt10", num_envs=4096))` to an agent's trainer."""

from __future__ import annotations

from typing import Any

import gymnasium
from skrl.envs.wrappers.torch.base import Wrapper
from torch import Tensor

from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.task_code import CodedObs


class SkrlEnv(Wrapper):
    """Worlds start new episodes themselves, as in Isaac Lab; `info["final_obs"]` has the observation before that."""

    def __init__(self, env: MultiTaskEnv, task_code: str = "none") -> None:
        """Wrap an environment; with `task_code="onehot"`, observations tell the task."""
        env.require_copies("SkrlEnv")
        super().__init__(env)
        self._coded, self._is_reset = CodedObs(env, task_code), False

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        """The observation of one world."""
        return self._coded.space

    def reset(self) -> tuple[Tensor, dict[str, Any]]:
        """Start all episodes at the first call; later, worlds have done so themselves."""
        obs = self._env.obs if self._is_reset else self._env.reset()
        self._is_reset = True
        return self._coded(obs), {"task": self._env.task}

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Any]]:
        """Apply actions (N, A), clipped to [-1, 1]."""
        step = self._env.step(actions)
        info = {"task": self._env.task, "success": step.success, "final_obs": self._coded(step.next_obs)}
        columns = (step.reward[:, None], step.terminated[:, None], step.truncated[:, None])
        return self._coded(step.obs), *columns, info

    def state(self) -> Tensor | None:
        """Return nothing: critics see what the policy sees."""
        return None

    def render(self, *args: Any, **kwargs: Any) -> Any:
        """Draw one world, the first unless told otherwise. (H, W, 3)"""
        return self._env.render(*args, **kwargs)

    def close(self) -> None:
        """Close the environment."""
        self._env.close()
