"""Train a Gaussian policy without a critic: every episode is judged by those of the same task played beside it.

Shao et al., "DeepSeekMath", 2024 (arXiv 2402.03300) introduce group-relative advantages; MTBench (Joshi et al., RLC
2025, arXiv 2507.23172) applies them to many worlds of each task. One iteration: one whole episode in every world,
rewards to go standardized over the worlds of a task, then PPO's clipped updates.

Differences from MTBench's GRPO: no constant is added to the reward of the last step; minibatches are drawn anew every
epoch and hold equally many rows of every task; each task has its own standard deviation; the mean may be taken per time
step (`baseline=time`), which removes the trend that rewards to go have over an episode; the score may be the whole
episode's return, as in the paper (`advantage=episodic`); a penalty on the divergence from the policy that acted may be
added (`kl_coef`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from polytask import grads
from polytask.algos.shared.context import AlgoContext
from polytask.algos.shared.gaussian import log_prob
from polytask.algos.shared.gaussian_actor import GaussianActor, SurrogateConfig, divergence, surrogate_loss
from polytask.algos.shared.minibatches import MinibatchUpdates, check_rate_schedule, chunks, scheduled
from polytask.algos.shared.normalize import task_moments
from polytask.algos.shared.returns import discounted_sum, group_advantage
from polytask.algos.shared.rollout import Rollout, TaskMajorSampler, num_minibatches, roll_out
from polytask.cuda_graph import Graphed
from polytask.errors import UserError
from polytask.grads.backward import Net
from polytask.settings import setting
from polytask.types import EnvSpec, VecEnv

ADVANTAGES = ("reward_to_go", "episodic")
BASELINES = ("task", "time")


@dataclass
class GRPOConfig(SurrogateConfig):
    """Settings of GRPO; the defaults are MTBench's where it has the setting."""

    name: str = "grpo"
    horizon: int = setting(0, "steps T of every world per iteration: the episode's length, which is also what 0 means")
    minibatch: int = setting(
        38400, "rows per update, rounded so that minibatches are equal and give every task as many"
    )
    advantage: str = setting(
        "reward_to_go",
        "what an action is judged by: reward_to_go, discounted by gamma, or episodic, the episode's sum of rewards",
    )
    baseline: str = setting(
        "task", "mean that scores are compared with: task, over all steps, or time, over the worlds at the same step"
    )
    kl_coef: float = setting(
        0.0, "penalty on the divergence of the policy from the one that collected the iteration's episodes"
    )


class GRPORows(NamedTuple):
    """What the loss needs of each row: all of a rollout as (T * N, ...), or a minibatch as (K, b, ...)."""

    obs: Tensor  # (..., O)
    task: Tensor  # (...)
    action: Tensor  # (..., A)
    log_prob: Tensor  # (...) of the action under the policy that chose it
    advantage: Tensor  # (...) relative to the task's group
    weight: Tensor  # (...) zero after an early end, else such that a task's weights have mean one


class GRPO:
    """The algorithm; see `types.Algo` for its four methods."""

    def __init__(self, cfg: GRPOConfig, context: AlgoContext) -> None:
        """Build the policy, its optimizer and the buffers."""
        check(cfg, context.spec)
        self.cfg, self.spec, self.device = cfg, context.spec, context.device
        self.total_frames = context.total_frames
        self.generator = context.generator("algo")
        self.iteration = 0
        self.actor = GaussianActor(cfg, context, self.generator)
        self.policy, self.obs_norm, self.task = self.actor.policy, self.actor.obs_norm, self.actor.task
        # The policy is the only network, so the gradient method is for it, whatever group the method is meant for.
        method = grads.build(context.grads, self.spec.num_tasks, self.device, self.generator)
        self.learners = {"actor": self.actor.learner(method, self._loss)}
        self._allocate()
        self.updates = MinibatchUpdates(self.rows, self.sampler, self.learners, self.obs_norm, self.generator)
        self._compute_targets = Graphed(self._targets, self.device)

    def _allocate(self) -> None:
        """Reserve every tensor that a captured graph reads or writes."""
        cfg, spec, rows = self.cfg, self.spec, self.frames_per_iteration
        count = num_minibatches(rows, cfg.minibatch)
        self.sampler = TaskMajorSampler(self.task, spec.num_tasks, spec.episode_length, count)
        self.rollout = Rollout.allocate(spec, spec.episode_length, self.device)
        self.rows = GRPORows(
            self.rollout.obs.flatten(0, 1),  # a view: raw observations, normalized when gathered
            self.task.repeat(spec.episode_length),
            self.rollout.action.flatten(0, 1),
            *(torch.zeros(rows, device=self.device) for _ in range(3)),
        )
        self._in_step = torch.zeros((), dtype=torch.bool, device=self.device)  # all worlds are at an episode's start
        self._is_checked = False

    # Act

    def act(self, obs: Tensor, task: Tensor, *, explore: bool) -> Tensor:
        """Choose actions (N, A) in [-1, 1]: the policy's mean, or a sample if exploring."""
        return self.actor.act(obs, task, explore=explore)

    # Collect

    def iterate(self, env: VecEnv) -> dict[str, Tensor]:
        """Play one episode in every world, learn from them, and return metrics."""
        progress = self.iteration * self.frames_per_iteration / self.total_frames
        self.updates.set_learning_rate(scheduled(self.cfg.lr, self.cfg.schedule, progress))
        if not self._in_step.item():  # read before anything is queued; false at first and after an early end
            env.reset()
        roll_out(env, self.actor.explore, self.rollout)
        self._check_alignment()
        self._compute_targets()
        self.updates.run(self.cfg.epochs)
        metrics = {
            **self.updates.metrics(self.spec.tasks),
            **self.actor.metrics(self.updates.last()),
            "rollout/reward": self.rollout.reward.mean(),
            "rollout/counted": (self.rows.weight > 0).float().mean(),
        }
        # Only now: while the policy learned from these rows it had to see them as it did when it acted.
        self.obs_norm.update(self.rollout.obs, self.task)
        self.iteration += 1
        return metrics

    @property
    def frames_per_iteration(self) -> int:
        """Environment steps that one iteration takes, over all worlds."""
        return self.spec.episode_length * self.spec.num_envs

    def _check_alignment(self) -> None:
        """Refuse, after the first rollout, environments whose episodes do not fill it."""
        if self._is_checked:
            return
        rollout = self.rollout
        strays = int((rollout.truncated[:-1].any(dim=0) | ~rollout.done.any(dim=0)).sum())
        # A few worlds may be cut off early because their simulation diverged; staggered starts cut off nearly all.
        if 2 * strays > self.spec.num_envs:
            raise UserError(
                f"GRPO compares whole episodes of algo.horizon={self.spec.episode_length} steps, but in {strays} of "
                f"{self.spec.num_envs} worlds the time limit came at another step: start all episodes together with "
                "stagger=false"
            )
        self._is_checked = True

    # Targets

    @torch.no_grad()
    def _targets(self) -> None:
        """Fill in the rows' log-probabilities, advantages and weights, in chunks of a minibatch's size."""
        cfg, rows, rollout, num_tasks = self.cfg, self.rows, self.rollout, self.spec.num_tasks
        for part in chunks(len(rows.task), cfg.minibatch):
            distribution = self.actor.at(rows.obs[part], rows.task[part])
            rows.log_prob[part] = log_prob(rows.action[part], *distribution)
        done = rollout.done
        # A world whose episode ended early has begun another, which the rollout cuts off: only the first one counts.
        counted = done.cumsum(dim=0) - done.int() == 0  # (T, N)
        if cfg.advantage == "episodic":
            total = (rollout.reward * counted).sum(dim=0, keepdim=True)  # (1, N)
            advantage = group_advantage(total, torch.ones_like(counted[:1]), self.task, num_tasks) * counted
        else:
            score = discounted_sum(rollout.reward, done, cfg.gamma)
            advantage = group_advantage(score, counted, self.task, num_tasks, by_time=cfg.baseline == "time")
        share = task_moments(counted.float().unsqueeze(-1), self.task, num_tasks).mean  # (K, 1)
        rows.advantage.copy_(advantage.flatten())
        rows.weight.copy_((counted / share.squeeze(-1)[self.task]).flatten())
        self._in_step.copy_(done[-1].all())

    # Loss

    def _loss(self, policy: Net, rows: GRPORows) -> Tensor:
        """Return every row's clipped surrogate with its regularizers (R,), weighted."""
        loss, log_ratio = surrogate_loss(self.cfg, policy, rows)
        if self.cfg.kl_coef > 0:
            loss = loss + self.cfg.kl_coef * divergence(log_ratio)
        return loss * rows.weight

    # Save

    def networks(self) -> dict[str, nn.Module]:
        """Return the networks and running statistics that a new run can start with, by name."""
        return self.updates.networks()

    def state_dict(self) -> dict[str, Any]:
        """Return all that a run needs to go on: tensors and plain values."""
        return {**self.updates.state_dict(), "in_step": self._in_step.clone(), "iteration": self.iteration}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned, possibly on another device."""
        self.updates.load_state_dict(state)
        self.actor.capture()  # a captured graph may go on with the generator's former state
        self._in_step.copy_(state["in_step"])
        self.iteration = state["iteration"]


def check(cfg: GRPOConfig, spec: EnvSpec) -> None:
    """Refuse settings that do not make whole episodes of comparable worlds."""
    check_rate_schedule(cfg.schedule)
    for name, value, known in (("advantage", cfg.advantage, ADVANTAGES), ("baseline", cfg.baseline, BASELINES)):
        if value not in known:
            raise UserError(f"algo.{name} is {value!r}; choose one of {', '.join(known)}")
    if cfg.horizon not in (0, spec.episode_length):
        raise UserError(
            f"algo.horizon is {cfg.horizon}, but GRPO plays whole episodes, which have {spec.episode_length} steps: "
            f"leave algo.horizon at 0 or set episode_length={cfg.horizon}, and stagger=false"
        )
    if min(spec.envs_per_task) < 2:
        raise UserError(f"GRPO compares the worlds of a task: each needs at least two, got {spec.envs_per_task}")
