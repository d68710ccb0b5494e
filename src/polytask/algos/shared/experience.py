"""The data that an off-policy learner keeps: the replay buffer, running statistics and the current step.

Statistics come from new steps only. Rows are normalized when they are sampled, with the statistics of that moment.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from polytask.algos.shared.context import AlgoContext
from polytask.algos.shared.normalize import TaskNormalizer
from polytask.algos.shared.replay import ReplayBatch, ReplayBuffer, Transition
from polytask.algos.shared.reward_scale import RewardNormalizer
from polytask.algos.shared.rollout import task_index
from polytask.cuda_graph import Graphed
from polytask.types import Step, VecEnv


class ExperienceConfig(NamedTuple):
    """Settings of the replay buffer and of the normalization."""

    capacity: int  # transitions over all worlds
    n_step: int  # longest return window
    gamma: float  # discount per step
    obs_clip: float  # bound on normalized observations
    return_bound: float  # largest magnitude of returns after scaling
    normalize_reward: bool  # whether to scale rewards
    save_replay: bool  # whether the replay buffer is part of the saved state


class Experience:
    """Stores one step of all worlds at a time and returns task-major batches.

    Attributes:
        stage: The current step, in tensors with fixed addresses; before the first episode `done` is true everywhere.
        steps: Steps of every world that were added to the replay buffer.
        task: Task of each world. (N,)
    """

    def __init__(self, context: AlgoContext, keeping: ExperienceConfig) -> None:
        """Allocate the replay buffer and the statistics."""
        spec, device = context.spec, context.device
        self.keeping = keeping
        self.task = task_index(spec, device)
        self.stage = Transition.zeros(spec, device)
        self.stage.done.fill_(True)
        self.steps = 0
        self.replay = ReplayBuffer(spec, keeping.capacity, keeping.n_step, keeping.gamma, device)
        self.obs_norm = TaskNormalizer(spec.num_tasks, spec.obs_dim, clip=keeping.obs_clip).to(device)
        self.reward_norm = RewardNormalizer(spec, self.task, keeping.gamma, keeping.return_bound)
        self._reward = torch.zeros((), device=device)  # mean reward of a step, summed since the last report
        self._store = Graphed(self._take_in, device)

    def begin(self, env: VecEnv) -> Transition:
        """Copy the current observations to the stage; the caller writes `stage.action` and steps the environment."""
        self.stage.obs.copy_(env.obs)
        return self.stage

    def finish(self, step: Step) -> None:
        """Store the staged step together with its result."""
        stage = self.stage
        stage.reward.copy_(step.reward)
        stage.next_obs.copy_(step.next_obs)
        stage.terminated.copy_(step.terminated)
        torch.logical_or(step.terminated, step.truncated, out=stage.done)
        self._store()
        self.steps += 1

    @torch.no_grad()
    def _take_in(self) -> None:
        stage = self.stage
        self.replay.add(stage)
        self.obs_norm.update(stage.obs, self.task)
        self.reward_norm.update(stage.reward, stage.done)
        self._reward += stage.reward.mean()

    @torch.no_grad()
    def sample(self, rows_per_task: int, generator: torch.Generator) -> ReplayBatch:
        """Sample a batch (K, b, ...) with normalized observations and, with `normalize_reward`, scaled rewards."""
        raw = self.replay.sample(rows_per_task, generator)
        obs, next_obs = (self.obs_norm.normalize(x, raw.task) for x in (raw.obs, raw.next_obs))
        scale = self.reward_norm.scale().unsqueeze(-1) if self.keeping.normalize_reward else 1.0  # (K, 1)
        return raw._replace(obs=obs, next_obs=next_obs, reward=raw.reward / scale)

    def pop_reward(self, steps: int) -> Tensor:
        """Return the mean reward () over the last `steps` steps, and reset the sum."""
        mean = self._reward / steps
        self._reward.zero_()
        return mean

    def state_dict(self) -> dict[str, Any]:
        """Return the statistics, which episodes ended with the last step and, with `save_replay`, the replay buffer."""
        state = {
            "obs_norm": self.obs_norm.state_dict(),
            "reward_norm": self.reward_norm.state_dict(),
            "done": self.stage.done.clone(),
            "steps": self.steps,
        }
        return state | {"replay": self.replay.state_dict()} if self.keeping.save_replay else state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned; without a saved replay buffer, the buffer starts empty."""
        self.obs_norm.load_state_dict(state["obs_norm"])
        self.reward_norm.load_state_dict(state["reward_norm"])
        self.stage.done.copy_(state["done"])
        self.steps = 0
        if "replay" in state:
            self.replay.load_state_dict(state["replay"])
            self.steps = state["steps"]
