"""Parts that off-policy learners share: settings, steps that fill a replay buffer, updates at a fixed rate, metrics."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from polytask.algos.shared.context import AlgoContext
from polytask.algos.shared.experience import Experience, ExperienceConfig
from polytask.algos.shared.learner import Learner, adam, restore_generator
from polytask.algos.shared.on_policy import SideStream
from polytask.algos.shared.replay import ReplayBatch
from polytask.grads import Backward
from polytask.grads.backward import Loss
from polytask.parallel.ranks import require_rows
from polytask.settings import setting
from polytask.types import VecEnv


@dataclass
class OffPolicyConfig(ExperienceConfig):
    """Settings of replay buffer and updates; the defaults are for thousands of worlds."""

    steps_per_iteration: int = setting(32, "steps of every world per iteration", within=(1, 10**6))
    updates_per_step: float = setting(
        4.0, "updates per step of all worlds; below 1, some steps have no update", above=0.0, at_most=10_000.0
    )
    learning_starts: int = setting(
        16, "steps of every world with uniformly random actions before the first update", within=(1, 10**9)
    )
    batch: int = setting(8192, "rows per update, rounded to equally many rows per task", within=(1, 10**8))
    tau: float = setting(
        0.01, "share by which the target critics move towards the critics after each update", above=0.0, at_most=1.0
    )
    lr: float = setting(5e-4, "learning rate of actor and critics (Adam)", at_least=0.0)
    weight_decay: float = setting(0.0, "weight decay of actor and critics, decoupled as in AdamW", at_least=0.0)
    max_grad_norm: float = setting(
        10.0, "bound on the norm of the gradient, for actor and critics separately", above=0.0, at_most=math.inf
    )
    overlap: bool = setting(
        False,
        "run the updates of a step while the worlds take the next one, which a GPU does at the same time; then actions "
        "come from the policy of one step earlier",
    )
    bf16: bool = setting(False, "run the networks in bfloat16; parameters, losses and targets stay float32")
    compile: bool = setting(
        True, "on a GPU, compile the updates into fewer kernels; takes seconds at the first start on a machine"
    )


class OffPolicyLoop:
    """Alternates steps of all worlds with updates; the algorithm defines how to act and what an update does.

    Attributes:
        experience: The replay buffer and the running statistics.
        learners: The learners of `add_learner`, and any that the algorithm adds, by name.
        steps: Steps of every world, over the whole run.
    """

    def __init__(self, cfg: OffPolicyConfig, context: AlgoContext, return_bound: float) -> None:
        """Allocate the replay buffer.

        Args:
            cfg: Settings.
            context: Environment spec, device and the parts chosen for the learner.
            return_bound: Largest magnitude of returns after the rewards are scaled.
        """
        self.cfg, self.context, self.spec, self.device = cfg, context, context.spec, context.device
        self.generator = context.generator("algo")
        self.rows_per_task = rows_per_task(cfg.batch, context.spec.num_tasks)
        self.ranks = context.ranks
        require_rows(self.ranks, self.rows_per_task, "use a larger algo.batch")
        self._columns = self.ranks.share(self.rows_per_task)  # of each task's rows, those of this rank
        self.experience = Experience(cfg, context, return_bound, is_fused=cfg.compile)
        self.learners: dict[str, Learner] = {}
        self.steps = 0
        self._updates = 0  # since this object exists
        # Exchanges between ranks must have the same order on all. Those of an overlapped update are over before that of
        # storing the step begins, so they may have a stream of their own.
        self._aside = SideStream(self.device)
        # Sums over an iteration's updates, in tensors with fixed addresses, because a captured update adds to them.
        self._losses: dict[str, Tensor] = {}  # (K,) of each learner
        self._scalars: dict[str, Tensor] = {}  # () by the name of the metric, including gradient norms
        self._reported: tuple[str, ...] = ()  # names of the scalars that are means over the rows of this rank

    def add_learner(self, group: str, net: nn.Module, loss: Loss) -> None:
        """Add a learner, "actor" or "critic", that trains a network on a loss per row and reports metrics."""
        cfg = self.cfg
        method = self.context.grad_method(group, self.generator)
        autocast = torch.bfloat16 if cfg.bf16 else None
        backward = Backward(method, net, loss, autocast, is_fused=cfg.compile, ranks=self.ranks)
        optimizer = adam(net, cfg.lr, self.device, weight_decay=cfg.weight_decay)
        self.learners[group] = Learner(backward, optimizer, cfg.max_grad_norm)
        self._losses[group] = torch.zeros(self.spec.num_tasks, device=self.device)
        self._scalars[f"grad_norm/{group}"] = torch.zeros((), device=self.device)

    def reserve(self, *names: str) -> None:
        """Allocate the scalars that updates will `report`."""
        self._scalars |= {name: torch.zeros((), device=self.device) for name in names}
        self._reported += names

    # Collect

    def run(self, env: VecEnv, choose_actions: Callable[[], Any], update: Callable[[], Any]) -> int:
        """Take the steps of one iteration, run updates after each step, and return the number of updates.

        Args:
            env: The environment.
            choose_actions: Writes the actions of `experience.own`.
            update: Runs one update.
        """
        before = self._updates
        for total in (*self._losses.values(), *self._scalars.values()):
            total.zero_()
        for _ in range(self.cfg.steps_per_iteration):
            self._choose(env, choose_actions)
            if self.cfg.overlap:
                self._aside.start(lambda: self._update(update))
            step = env.step(self.experience.own.action)  # exchanges nothing with other ranks
            self._aside.finish()
            self.experience.finish(step)
            self.steps += 1
            if not self.cfg.overlap:
                self._update(update)
        return self._updates - before

    @property
    def frames_per_iteration(self) -> int:
        """Environment steps that one iteration takes, over all worlds."""
        return self.cfg.steps_per_iteration * self.spec.num_envs

    def _choose(self, env: VecEnv, choose_actions: Callable[[], Any]) -> None:
        """Write the actions of the next step of the own worlds."""
        own, stage = self.experience.begin(env), self.experience.stage
        choose_actions()
        if self.steps < self.cfg.learning_starts:
            stage.action.uniform_(-1.0, 1.0, generator=self.generator)
            own.action.copy_(self.experience.worlds.own(stage.action))  # nothing to copy in a single process

    # Update

    def _update(self, update: Callable[[], Any]) -> None:
        """Run the updates that are due after the last stored step."""
        if self.experience.steps >= self.cfg.learning_starts:
            due = updates_due(self.steps, self.cfg.updates_per_step)
            for _ in range(due):
                update()
            self._updates += due

    def sample(self) -> ReplayBatch:
        """Sample the batch (K, b, ...) of an update; with several ranks, the rows of this rank."""
        return self.experience.sample(self.rows_per_task, self.generator, self._columns)

    def noise(self, like: Tensor) -> Tensor:
        """Draw standard normal numbers with the shape of a tensor."""
        return torch.randn(like.shape, generator=self.generator, device=self.device)

    def batch_noise(self, like: Tensor) -> Tensor:
        """Draw standard normal numbers (K, b, A) for the rows of a batch (K, b, A), with several ranks for all rows."""
        if self.ranks.is_alone:
            return self.noise(like)
        return self.noise(like[:, :1].expand(-1, self.rows_per_task, -1))[:, self._columns]

    def world_noise(self, like: Tensor) -> Tensor:
        """Draw standard normal numbers (n, A) for the own worlds, with several ranks for all worlds."""
        return self.experience.worlds.draw(lambda count: self.noise(like[:1].expand(count, -1)))

    def learn(self, group: str, rows: Any) -> None:
        """Take one optimizer step of a learner and add its losses and gradient norm to the sums."""
        losses, norm = self.learners[group].step(rows)
        self._losses[group] += losses
        self._scalars[f"grad_norm/{group}"] += norm

    def report(self, scalars: dict[str, Tensor]) -> None:
        """Add scalars of an update to their sums."""
        for name, value in scalars.items():
            self._scalars[name] += value

    @torch.no_grad()
    def metrics(self, updates: int, actor_updates: int) -> dict[str, Tensor]:
        """Return averages over the iteration's updates; without updates all averages are zero."""
        counts = {"actor": max(1, actor_updates), "critic": max(1, updates)}
        average = {group: total / counts[group] for group, total in self._losses.items()}  # (K,) each
        metrics = {f"loss/{group}": losses.mean() for group, losses in average.items()}
        for name, total in self._sums_over_ranks().items():
            metrics[name] = total / counts.get(name.removeprefix("grad_norm/"), counts["critic"])
        for name, learner in self.learners.items():
            metrics[f"skipped/{name}"] = learner.pop_skipped(actor_updates if name == "actor" else updates)
        metrics["rollout/reward"] = self.experience.pop_reward(self.cfg.steps_per_iteration)
        metrics["updates"] = torch.full((), updates, device=self.device)
        for group, losses in average.items():
            for task, loss in zip(self.spec.tasks, losses, strict=True):
                metrics[f"per_task/{task}/{group}_loss"] = loss
            metrics |= self.learners[group].pop_weights(counts[group], group, self.spec.tasks)
            metrics |= self.learners[group].conflicts(f"conflict/{group}", self.spec.tasks)
        return metrics

    def _sums_over_ranks(self) -> dict[str, Tensor]:
        """Return the scalars; the reported ones as means over the rows of all ranks."""
        if self.ranks.is_alone or not self._reported:
            return self._scalars
        own = torch.stack([self._scalars[name] for name in self._reported])
        means, _ = self.ranks.mean(own, self._columns.stop - self._columns.start)
        return {**self._scalars, **dict(zip(self._reported, means, strict=True))}

    # Save

    def networks(self) -> dict[str, nn.Module]:
        """Return the networks and running statistics, by name."""
        nets = {name: learner.net for name, learner in self.learners.items()}
        return {**nets, "obs_norm": self.experience.obs_norm, "reward_norm": self.experience.reward_norm}

    def state_dict(self) -> dict[str, Any]:
        """Return the state of learners, experience and generator; the replay buffer only with `save_replay`."""
        return {
            "learners": {name: learner.state_dict() for name, learner in self.learners.items()},
            "experience": self.experience.state_dict(),
            "generator": self.generator.get_state(),
            "steps": self.steps,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state of `state_dict`, possibly on another device; afterwards graphs must be captured again."""
        for name, learner in self.learners.items():
            learner.load_state_dict(state["learners"][name])
        self.experience.load_state_dict(state["experience"])
        self.steps = state["steps"]
        restore_generator(self.generator, state["generator"])


def rows_per_task(batch: int, num_tasks: int) -> int:
    """Return the number of rows per task, at least one, in a batch of about `batch` rows."""
    return max(1, round(batch / num_tasks))


def updates_due(step: int, updates_per_step: float) -> int:
    """Return the number of updates after step `step`, counted from 1, that gives the configured average rate."""
    return int(step * updates_per_step) - int((step - 1) * updates_per_step)
