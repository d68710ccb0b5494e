"""What off-policy learners share: settings, steps that fill a replay, updates at a steady rate, and their reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from polytask.algos.shared.context import AlgoContext
from polytask.algos.shared.experience import Experience, ExperienceConfig
from polytask.algos.shared.learner import Learner, adam, restore_generator
from polytask.algos.shared.replay import ReplayBatch
from polytask.errors import UserError
from polytask.grads import Backward
from polytask.grads.backward import Loss
from polytask.settings import setting
from polytask.types import VecEnv


@dataclass
class OffPolicyConfig:
    """Settings of replay and updates; the defaults are for thousands of worlds."""

    steps_per_iteration: int = setting(32, "steps of every world per iteration")
    updates_per_step: float = setting(4.0, "updates per step of all worlds; below 1 some steps have none")
    learning_starts: int = setting(16, "steps of every world with uniformly random actions before the first update")
    batch: int = setting(8192, "rows per update, rounded so that every task has as many")
    capacity: int = setting(5_000_000, "transitions that the replay keeps, over all worlds")
    save_replay: bool = setting(
        True, "save the replay in checkpoints; if not, a resumed run fills it anew before it learns"
    )
    n_step: int = setting(8, "longest return window before bootstrapping")
    gamma: float = setting(0.99, "discount per step")
    tau: float = setting(0.01, "share by which the target critics follow after each update")
    lr: float = setting(5e-4, "Adam's learning rate, of actor and critics")
    max_grad_norm: float = setting(10.0, "bound on the gradient's norm, for actor and critics separately")
    obs_clip: float = setting(10.0, "bound on normalized observations, against entries that were constant so far")
    normalize_reward: bool = setting(True, "scale rewards per task by the spread of discounted returns")
    bf16: bool = setting(False, "run the networks in bfloat16; parameters, losses and targets stay float32")


class OffPolicyLoop:
    """Alternates steps of all worlds with updates; the algorithm says how to act and what an update is.

    Attributes:
        experience: The replay and the running statistics.
        learners: Those of `add_learner`, and any that the algorithm adds, by name.
        steps: Steps of every world, over the whole run.
    """

    def __init__(self, cfg: OffPolicyConfig, context: AlgoContext, return_bound: float = 10.0) -> None:
        """Reserve the replay.

        Args:
            cfg: Settings.
            context: The learner's surroundings.
            return_bound: Largest magnitude that rewards are scaled to let a return have.
        """
        check_update_schedule(cfg)
        self.cfg, self.context, self.spec, self.device = cfg, context, context.spec, context.device
        self.generator = context.generator("algo")
        self.rows_per_task = rows_per_task(cfg.batch, context.spec.num_tasks)
        keeping = (cfg.capacity, cfg.n_step, cfg.gamma, cfg.obs_clip, return_bound, cfg.normalize_reward)
        self.experience = Experience(context, ExperienceConfig(*keeping, save_replay=cfg.save_replay))
        self.learners: dict[str, Learner] = {}
        self.steps = 0
        # Sums over an iteration's updates, in tensors that a captured update goes on adding to.
        self._losses: dict[str, Tensor] = {}  # (K,) of each learner
        self._scalars: dict[str, Tensor] = {}  # () by the names of their metrics, gradient norms among them

    def add_learner(self, group: str, net: nn.Module, loss: Loss, *, weight_decay: float = 0.0) -> None:
        """Put a network, "actor" or "critic", to learning from a loss per row, and report on it."""
        cfg = self.cfg
        method = self.context.grad_method(group, self.generator)
        backward = Backward(method, net, loss, torch.bfloat16 if cfg.bf16 else None)
        optimizer = adam(net, cfg.lr, self.device, weight_decay=weight_decay)
        self.learners[group] = Learner(backward, optimizer, cfg.max_grad_norm)
        self._losses[group] = torch.zeros(self.spec.num_tasks, device=self.device)
        self.reserve(f"grad_norm/{group}")

    def reserve(self, *names: str) -> None:
        """Make room for scalars that updates will `report`."""
        self._scalars |= {name: torch.zeros((), device=self.device) for name in names}

    # Collect

    def run(self, env: VecEnv, choose_actions: Callable[[], Any], update: Callable[[], Any]) -> int:
        """Take an iteration's steps, each followed by its share of updates; return how many updates there were.

        Args:
            env: The worlds.
            choose_actions: Fills in the actions of `experience.stage`.
            update: Takes one update.
        """
        updates = 0
        for total in (*self._losses.values(), *self._scalars.values()):
            total.zero_()
        for _ in range(self.cfg.steps_per_iteration):
            self._step(env, choose_actions)
            if self.experience.steps >= self.cfg.learning_starts:
                due = updates_due(self.steps, self.cfg.updates_per_step)
                for _ in range(due):
                    update()
                updates += due
        return updates

    @property
    def frames_per_iteration(self) -> int:
        """Environment steps that one iteration takes, over all worlds."""
        return self.cfg.steps_per_iteration * self.spec.num_envs

    def _step(self, env: VecEnv, choose_actions: Callable[[], Any]) -> None:
        """Take one step of every world and keep it."""
        stage = self.experience.begin(env)
        choose_actions()
        if self.steps < self.cfg.learning_starts:
            stage.action.uniform_(-1.0, 1.0, generator=self.generator)
        self.experience.finish(env.step(stage.action))
        self.steps += 1

    # Update

    def sample(self) -> ReplayBatch:
        """Draw the batch (K, b, ...) of an update."""
        return self.experience.sample(self.rows_per_task, self.generator)

    def noise(self, like: Tensor) -> Tensor:
        """Draw standard normal numbers in the shape of a tensor."""
        return torch.randn(like.shape, generator=self.generator, device=self.device)

    def learn(self, group: str, rows: Any) -> None:
        """Take one optimizer step of a learner and note its losses and the norm of its gradient."""
        losses, norm = self.learners[group].step(rows)
        self._losses[group] += losses
        self._scalars[f"grad_norm/{group}"] += norm

    def report(self, name: str, value: Tensor) -> None:
        """Note a scalar of an update."""
        self._scalars[name] += value

    @torch.no_grad()
    def metrics(self, updates: int, actor_updates: int) -> dict[str, Tensor]:
        """Average over the iteration's updates; without any all averages are zero."""
        counts = {"actor": max(1, actor_updates), "critic": max(1, updates)}
        average = {group: total / counts[group] for group, total in self._losses.items()}  # (K,) each
        metrics = {f"loss/{group}": losses.mean() for group, losses in average.items()}
        for name, total in self._scalars.items():
            metrics[name] = total / counts.get(name.removeprefix("grad_norm/"), counts["critic"])
        metrics["rollout/reward"] = self.experience.pop_reward(self.cfg.steps_per_iteration)
        metrics["updates"] = torch.full((), updates, device=self.device)
        for group, losses in average.items():
            for task, loss in zip(self.spec.tasks, losses, strict=True):
                metrics[f"per_task/{task}/{group}_loss"] = loss
            metrics |= self.learners[group].conflicts(f"conflict/{group}", self.spec.tasks)
        return metrics

    # Save

    def networks(self) -> dict[str, nn.Module]:
        """Return the networks and running statistics by name."""
        nets = {name: learner.net for name, learner in self.learners.items()}
        return {**nets, "obs_norm": self.experience.obs_norm, "reward_norm": self.experience.reward_norm}

    def state_dict(self) -> dict[str, Any]:
        """Return the state of learners, experience and generator; the replay only with `save_replay`."""
        return {
            "learners": {name: learner.state_dict() for name, learner in self.learners.items()},
            "experience": self.experience.state_dict(),
            "generator": self.generator.get_state(),
            "steps": self.steps,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned, possibly on another device; graphs must then be captured anew."""
        for name, learner in self.learners.items():
            learner.load_state_dict(state["learners"][name])
        self.experience.load_state_dict(state["experience"])
        self.steps = state["steps"]
        restore_generator(self.generator, state["generator"])


def rows_per_task(batch: int, num_tasks: int) -> int:
    """Return how many rows of each task a batch of about the wanted size has, at least one."""
    return max(1, round(batch / num_tasks))


def updates_due(step: int, updates_per_step: float) -> int:
    """Return how many updates follow step number `step`, counted from 1, so that their average rate is as wanted."""
    return int(step * updates_per_step) - int((step - 1) * updates_per_step)


def check_update_schedule(cfg: OffPolicyConfig) -> None:
    """Refuse settings with which no run would ever learn."""
    for name in ("steps_per_iteration", "learning_starts"):
        if getattr(cfg, name) < 1:
            raise UserError(f"algo.{name} is {getattr(cfg, name)}; at least 1 is needed")
    if cfg.updates_per_step <= 0:
        raise UserError(f"algo.updates_per_step is {cfg.updates_per_step}; it must be above 0")
