"""polytask's worlds for Stable-Baselines3: `PPO("MlpPolicy", VecMonitor(Sb3Env(polytask.make(...))))`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.task_code import CodedObs


class Sb3Env(VecEnv):
    """NumPy arrays. `infos` has "is_success" of ended episodes: whether the task succeeded at any of their steps."""

    def __init__(self, env: MultiTaskEnv, task_code: str = "none") -> None:
        """Wrap an environment; with `task_code="onehot"`, observations tell the task."""
        env.require_copies("Sb3Env")
        self.env, self._coded, self.render_mode = env, CodedObs(env, task_code), "rgb_array"
        self._action = torch.zeros(env.num_envs, env.spec.action_dim, device=env.device)
        self._success = np.zeros(env.num_envs, dtype=bool)
        super().__init__(env.num_envs, self._coded.space, env.action_space)

    def reset(self) -> NDArray[np.float32]:
        """Start a new episode in every world, with the seeds that `seed` has set."""
        seeds = None if None in self._seeds else self._seeds
        if seeds is not None:
            self.env.seed(seeds[0])
        self._reset_seeds()
        self._success[:] = False
        return self._coded(self.env.reset(seeds=seeds)).numpy(force=True)

    def step_async(self, actions: NDArray[np.float32]) -> None:
        """Keep actions (N, A) for `step_wait`."""
        self._action = torch.as_tensor(actions, dtype=torch.float32, device=self.env.device)

    def step_wait(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Apply the actions. Return observations, rewards, ends and one dictionary per world."""
        step = self.env.step(self._action)
        terminated, truncated = step.terminated.numpy(force=True), step.truncated.numpy(force=True)
        self._success |= step.success.numpy(force=True)
        final, ended = self._coded(step.next_obs).numpy(force=True), terminated | truncated
        infos: list[dict[str, Any]] = [{"TimeLimit.truncated": False} for _ in range(self.num_envs)]
        for world in np.flatnonzero(ended):
            infos[world] = {
                "TimeLimit.truncated": bool(truncated[world] and not terminated[world]),
                "terminal_observation": final[world],
                "is_success": bool(self._success[world]),
            }
        self._success[ended] = False
        return self._coded(step.obs).numpy(force=True), step.reward.numpy(force=True), ended, infos

    def get_images(self) -> Sequence[NDArray[np.uint8]]:
        """Draw every world."""
        return [self.env.render(world) for world in range(self.num_envs)]

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def get_attr(self, attr_name: str, indices: int | Iterable[int] | None = None) -> list[Any]:
        """Return an attribute of this object once per world: all worlds are one environment."""
        return [getattr(self, attr_name)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: int | Iterable[int] | None = None) -> None:
        """Set an attribute of this object."""
        setattr(self, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Call a method of this object; return its result once per world."""
        return [getattr(self, method_name)(*args, **kwargs)] * len(list(self._get_indices(indices)))

    def env_is_wrapped(self, wrapper_class: type[Any], indices: int | Iterable[int] | None = None) -> list[bool]:
        """Return False once per world: no world has a wrapper of its own."""
        return [False] * len(list(self._get_indices(indices)))
