"""The data that an off-policy learner keeps: the replay buffer, running statistics and the current step.

Statistics come from new steps only. Rows are normalized when they are sampled, with the statistics of that moment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from polytask.algos.shared.context import AlgoContext
from polytask.algos.shared.normalize import ObsNormalizerConfig, obs_normalizer
from polytask.algos.shared.replay import ReplayBatch, ReplayBuffer, Transition
from polytask.algos.shared.reward_scale import RewardNormalizer
from polytask.algos.shared.rollout import task_index
from polytask.cuda_graph import Graphed, fused
from polytask.parallel.worlds import WorldShare
from polytask.settings import setting
from polytask.types import Step, VecEnv


@dataclass
class ExperienceConfig(ObsNormalizerConfig):
    """Settings of the replay buffer and of the normalization; the defaults are for thousands of worlds."""

    capacity: int = setting(5_000_000, "transitions in the replay buffer, over all worlds", within=(1, 10**12))
    save_replay: bool = setting(
        True, "save the replay buffer in checkpoints; otherwise a resumed run fills a new one before it learns"
    )
    n_step: int = setting(8, "largest number of steps before bootstrapping", within=(1, 10_000))
    gamma: float = setting(0.99, "discount per step", at_least=0.0, below=1.0)
    normalize_reward: bool = setting(True, "scale rewards per task by the standard deviation of discounted returns")


class Experience:
    """Stores one step of all worlds at a time and returns task-major batches.

    Attributes:
        stage: The current step of all worlds, in tensors with fixed addresses; before the first episode `done` is true
            everywhere.
        own: The same of the worlds of this rank, which `begin` and `finish` write; in a single process it is `stage`.
        steps: Steps of every world that were added to the replay buffer.
        task: Task of each world. (N,)
        own_task: Task of each world of this rank. (n,)
        worlds: The worlds of this rank.
    """

    def __init__(
        self, cfg: ExperienceConfig, context: AlgoContext, return_bound: float, *, is_fused: bool = False
    ) -> None:
        """Allocate the replay buffer and the statistics.

        Args:
            cfg: Settings.
            context: Environment spec and device.
            return_bound: Largest magnitude of returns after the rewards are scaled.
            is_fused: On a GPU, compile sampling and the statistics into fewer kernels.
        """
        spec, device = context.spec, context.device
        self.cfg = cfg
        self.task = task_index(spec, device)
        self.stage = Transition.zeros(spec, device)
        self.stage.done.fill_(True)
        self.worlds = WorldShare(context.ranks, spec.envs_per_task, device)
        self.own_task, self.own = self.task, self.stage
        if not context.ranks.is_alone:
            own_spec = replace(spec, envs_per_task=self.worlds.envs_per_task)
            self.own_task, self.own = task_index(own_spec, device), Transition.zeros(own_spec, device)
        self.steps = 0
        self.replay = ReplayBuffer(spec, cfg.capacity, cfg.n_step, cfg.gamma, device)
        self.obs_norm = obs_normalizer(cfg, spec, device)
        self.reward_norm = RewardNormalizer(spec, self.task, cfg.gamma, return_bound)
        self._reward = torch.zeros((), device=device)  # mean reward of a step, summed since the last report
        self._fused_update = fused(self._update_statistics, device, is_wanted=is_fused)
        self._fused_rows_at = fused(self._rows_at, device, is_wanted=is_fused)
        self._store = Graphed(self._take_in, device)

    def begin(self, env: VecEnv) -> Transition:
        """Copy the current observations to `own`; the caller writes `own.action` and steps the environment."""
        self.own.obs.copy_(env.obs)
        return self.own

    def finish(self, step: Step) -> None:
        """Store the staged step of all ranks together with its result."""
        own = self.own
        own.reward.copy_(step.reward)
        own.next_obs.copy_(step.next_obs)
        own.terminated.copy_(step.terminated)
        torch.logical_or(step.terminated, step.truncated, out=own.done)
        self._store()
        self.steps += 1

    def _take_in(self) -> None:
        """Put the steps of all ranks together on the stage; add it to the replay buffer and to the statistics."""
        self.worlds.gather_into(self.stage, self.own)  # apart from the statistics: compiled kernels exchange nothing
        self.replay.add(self.stage)
        self._fused_update()

    @torch.no_grad()
    def _update_statistics(self) -> None:
        stage = self.stage
        self.obs_norm.update(stage.obs, self.task)
        self.reward_norm.update(stage.reward, stage.done)
        self._reward += stage.reward.mean()

    def sample(self, rows_per_task: int, generator: torch.Generator, columns: slice = slice(None)) -> ReplayBatch:
        """Sample a batch (K, b, ...) with normalized observations and, with `normalize_reward`, scaled rewards.

        Args:
            rows_per_task: Number of rows to draw.
            generator: Source of random numbers.
            columns: The drawn rows to return, the same of every task: those of this rank.
        """
        return self._fused_rows_at(self.replay.draw(rows_per_task, generator)[:, columns])

    @torch.no_grad()
    def _rows_at(self, bits: Tensor) -> ReplayBatch:
        """Return the normalized rows (K, b, ...) that random bits (K, b) choose."""
        raw = self.replay.rows_at(bits)
        return ReplayBatch(
            obs=self.obs_norm.normalize(raw.obs, raw.task),
            task=raw.task,
            action=raw.action,
            reward=raw.reward / self.reward_norm.scale().unsqueeze(-1) if self.cfg.normalize_reward else raw.reward,
            next_obs=self.obs_norm.normalize(raw.next_obs, raw.task),
            discount=raw.discount,
        )

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
        return state | {"replay": self.replay.state_dict()} if self.cfg.save_replay else state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned; without a saved replay buffer, the buffer starts empty."""
        self.obs_norm.load_state_dict(state["obs_norm"])
        self.reward_norm.load_state_dict(state["reward_norm"])
        self.stage.done.copy_(state["done"])
        self.steps = 0
        if "replay" in state:
            self.replay.load_state_dict(state["replay"])
            self.steps = state["steps"]
