"""polytask's worlds for TorchRL: `TorchRLEnv(polytask.make("mt10", num_envs=64)).rollout(100)`."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data import Binary, Bounded, Composite, Unbounded
from torchrl.envs import EnvBase

from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.task_code import CodedObs


class TorchRLEnv(EnvBase):
    """A batch-locked environment with batch size N: "observation", "action", "reward", "success" and the ends."""

    def __init__(self, env: MultiTaskEnv, task_code: str = "none") -> None:
        """Wrap an environment; with `task_code="onehot"`, observations tell the task."""
        env.require_copies("TorchRLEnv")
        count = env.num_envs
        super().__init__(device=env.device, batch_size=[count])
        self._worlds, self._coded = env, CodedObs(env, task_code)
        flag = {"n": 1, "shape": (count, 1), "dtype": torch.bool, "device": env.device}
        self.observation_spec = Composite(
            observation=Unbounded((count, self._coded.size), device=env.device),
            success=Binary(**flag),
            shape=[count],
        )
        self.action_spec = Bounded(-1.0, 1.0, (count, env.spec.action_dim), device=env.device)
        self.reward_spec = Unbounded((count, 1), device=env.device)
        names = ("done", "terminated", "truncated")
        self.full_done_spec = Composite({name: Binary(**flag) for name in names}, shape=[count])

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDict:
        """Start new episodes, everywhere or where "_reset" is true."""
        chosen = None if tensordict is None else tensordict.get("_reset", None)
        if chosen is None:
            self._worlds.reset()
        else:
            # Where an episode has just ended, the next one has begun already.
            due = chosen.reshape(-1) & (self._worlds.episode_step > 0)
            if bool(due.any()):
                self._worlds.reset(due)
        none = self._worlds.task.new_zeros(len(self._worlds.task), dtype=torch.bool)
        return self._record(self._worlds.obs, none, none, none)

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        """Apply "action". The observation is the one before any reset."""
        step = self._worlds.step(tensordict["action"])
        record = self._record(step.next_obs, step.success, step.terminated, step.truncated)
        return record.set("reward", step.reward[:, None])

    def _record(self, obs: Tensor, success: Tensor, terminated: Tensor, truncated: Tensor) -> TensorDict:
        flags = {"success": success, "terminated": terminated, "truncated": truncated, "done": terminated | truncated}
        columns = {name: value[:, None] for name, value in flags.items()}
        return TensorDict({"observation": self._coded(obs), **columns}, self.batch_size, device=self.device)

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            self._worlds.seed(seed)

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the environment."""
        super().close(raise_if_closed=raise_if_closed)
        self._worlds.close()
