"""What an off-policy learner keeps of what its worlds did: the replay, running statistics and the step at hand.

Statistics come from fresh steps only; rows are normalized when they are drawn, by the statistics of that moment.
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
    """How experience is kept and served."""

    capacity: int  # transitions over all worlds
    n_step: int  # longest return window
    gamma: float  # discount per step
    obs_clip: float  # bound on normalized observations
    return_bound: float  # largest magnitude of normalized returns
    normalize_reward: bool  # else rewards are served as they are
    save_replay: bool  # whether the replay is part of the saved state


class Experience:
    """Takes in one step of all worlds at a time and serves task-major batches.

    Attributes:
        stage: The step at hand, in tensors that stay where they are; `done` starts all true, before any episode.
        steps: Steps of every world that the replay has been given.
        task: Task of each world. (N,)
    """

    def __init__(self, context: AlgoContext, keeping: ExperienceConfig) -> None:
        """Reserve everything."""
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
        """Stage the observations to act on; the caller writes `stage.action` and steps the environment with it."""
        self.stage.obs.copy_(env.obs)
        return self.stage

    def finish(self, step: Step) -> None:
        """Store the staged step together with what it led to."""
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
        """Draw a batch (K, b, ...) with observations normalized and, if so set, rewards scaled."""
        raw = self.replay.sample(rows_per_task, generator)
        obs, next_obs = (self.obs_norm.normalize(x, raw.task) for x in (raw.obs, raw.next_obs))
        scale = self.reward_norm.scale().unsqueeze(-1) if self.keeping.normalize_reward else 1.0  # (K, 1)
        return raw._replace(obs=obs, next_obs=next_obs, reward=raw.reward / scale)

    def pop_reward(self, steps: int) -> Tensor:
        """Return the mean reward () over the last so many steps, and start anew."""
        mean = self._reward / steps
        self._reward.zero_()
        return mean

    def state_dict(self) -> dict[str, Any]:
        """Return statistics, where episodes stand and, if so set, the replay."""
        state = {
            "obs_norm": self.obs_norm.state_dict(),
            "reward_norm": self.reward_norm.state_dict(),
            "done": self.stage.done.clone(),
            "steps": self.steps,
        }
        return state | {"replay": self.replay.state_dict()} if self.keeping.save_replay else state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned; without a saved replay the replay starts empty and is filled anew."""
        self.obs_norm.load_state_dict(state["obs_norm"])
        self.reward_norm.load_state_dict(state["reward_norm"])
        self.stage.done.copy_(state["done"])
        self.steps = 0
        if "replay" in state:
            self.replay.load_state_dict(state["replay"])
            self.steps = state["steps"]
