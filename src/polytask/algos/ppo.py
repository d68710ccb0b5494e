"""Train a Gaussian policy and a value function by proximal policy optimisation, every task with equal weight.

Schulman et al., "Proximal Policy Optimization Algorithms", 2017 (arXiv 1707.06347), with the hyperparameters of
MTBench (Joshi et al., RLC 2025, arXiv 2507.23172). One iteration: T steps of all worlds, advantages by GAE, then a few
epochs of task-major minibatches, each of which gives the gradient method one loss per task, for actor and critic.

Differences from MTBench's PPO: a truncated episode bootstraps from the observation it ended in; minibatches are drawn
anew every epoch and hold equally many rows of every task; advantages are standardised once, per task; actor and
critic are clipped and stepped on their own, so a method that scales the critic's gradient leaves the actor alone;
each task has its own standard deviation; observation statistics are frozen within an iteration, so that old and new
policy see the same input.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from polytask.algos.context import AlgoContext
from polytask.algos.learner import Learner, adam
from polytask.grads import Backward
from polytask.grads.backward import Net
from polytask.graph import Graphed
from polytask.normalize import TaskNormalizer, standardize, task_moments
from polytask.policy import GaussianPolicy, StdRange, entropy, log_prob
from polytask.returns import gae, td_error
from polytask.rollout import Rollout, TaskMajorSampler, collect, num_minibatches, task_index
from polytask.types import UserError, VecEnv

SCHEDULES = ("constant", "linear")


@dataclass
class PPOConfig:
    """Settings of PPO; the defaults are MTBench's where it has the setting."""

    horizon: int = 32
    """Steps T of every world per iteration."""
    epochs: int = 5
    """Passes over an iteration's rows."""
    minibatch: int = 32768
    """Rows per update, rounded so that minibatches are equal and give every task as many."""
    gamma: float = 0.99
    """Discount per step."""
    lam: float = 0.95
    """GAE's weight of longer returns."""
    clip: float = 0.2
    """Bound on the change of the probability ratio and, in normalised units, of the value."""
    clip_value: bool = True
    """Whether the value loss is clipped too."""
    value_coef: float = 2.0
    """Factor of the squared error of normalised values; it matters to clipping, Adam cancels it."""
    entropy_coef: float = 0.005
    """Reward for the policy's entropy."""
    bounds_coef: float = 1e-4
    """Penalty on the square of a mean's excess over `bounds`."""
    bounds: float = 1.1
    """Magnitude of an action's mean that is free; beyond it clipping by the environment hides the gradient."""
    lr: float = 5e-4
    """Adam's learning rate, of actor and critic."""
    schedule: str = "constant"
    """Learning rate over the run: constant, or linear to zero at its last frame."""
    max_grad_norm: float = 1.0
    """Bound on the gradient's norm, for actor and critic separately."""
    task_std: bool = True
    """One standard deviation per task; else one for all tasks."""
    initial_std: float = 1.0
    """Standard deviation of the first policy; actions lie in [-1, 1]."""
    min_std: float = 0.02
    """Lower bound of the standard deviation, where log-densities become too steep to learn from."""
    max_std: float = 2.0
    """Upper bound; without one the entropy reward inflates the noise of a task that earns nothing."""
    obs_clip: float = 10.0
    """Bound on normalised observations, against entries that were constant so far."""
    value_decay: float = 0.99
    """Weight that earlier iterations keep in the return statistics, which drift as the policy improves."""
    bf16: bool = False
    """Run the networks in bfloat16; parameters, losses and targets stay float32."""


class Rows(NamedTuple):
    """What losses need of each row: all of a rollout as (T * N, ...), or a minibatch as (K, b, ...)."""

    obs: Tensor  # (..., O)
    task: Tensor  # (...)
    action: Tensor  # (..., A)
    log_prob: Tensor  # (...) of the action under the policy that chose it
    advantage: Tensor  # (...) standardised per task
    value: Tensor  # (...) the critic's output before the update
    target: Tensor  # (...) normalised return


class PPO:
    """The algorithm; see `types.Algo` for its four methods."""

    def __init__(self, cfg: PPOConfig, context: AlgoContext) -> None:
        """Build networks, optimisers and buffers."""
        if cfg.schedule not in SCHEDULES:
            raise UserError(f"algo.schedule is {cfg.schedule!r}; choose one of {', '.join(SCHEDULES)}")
        self.cfg, self.spec, self.device = cfg, context.spec, context.device
        self.total_frames = context.total_frames
        self.generator = context.generator("algo")
        self.iteration = 0
        self._build_learners(context)
        self._allocate()
        self._build_graphs()

    def _build_learners(self, context: AlgoContext) -> None:
        cfg, spec, num_tasks = self.cfg, self.spec, self.spec.num_tasks
        std = StdRange(cfg.initial_std, cfg.min_std, cfg.max_std)
        net = context.actor_net(spec.action_dim)
        self.policy = GaussianPolicy(net, num_tasks, spec.action_dim, cfg.task_std, std).to(self.device)
        self.critic = context.value_net(spec.obs_dim, 1)
        autocast = torch.bfloat16 if cfg.bf16 else None
        actor_method = context.grad_method("actor", self.generator)
        critic_method = context.grad_method("critic", self.generator)
        actor = Backward(actor_method, self.policy, self._actor_loss, autocast)
        critic = Backward(critic_method, self.critic, self._critic_loss, autocast)
        self.learners = {
            "actor": Learner(actor, adam(self.policy, cfg.lr, self.device), cfg.max_grad_norm),
            "critic": Learner(critic, adam(self.critic, cfg.lr, self.device), cfg.max_grad_norm),
        }
        self.obs_norm = TaskNormalizer(num_tasks, spec.obs_dim, clip=cfg.obs_clip).to(self.device)
        self.value_norm = TaskNormalizer(num_tasks, 1, decay=cfg.value_decay).to(self.device)

    def _allocate(self) -> None:
        """Reserve every tensor that a captured graph reads or writes."""
        cfg, spec = self.cfg, self.spec
        rows = cfg.horizon * spec.num_envs
        self.task = task_index(spec, self.device)  # (N,)
        self.sampler = TaskMajorSampler(self.task, spec.num_tasks, cfg.horizon, num_minibatches(rows, cfg.minibatch))
        self.rollout = Rollout.allocate(spec, cfg.horizon, self.device)
        self.rows = Rows(
            self.rollout.obs.flatten(0, 1),  # a view: raw observations, normalised when gathered
            self.task.repeat(cfg.horizon),
            self.rollout.action.flatten(0, 1),
            *(torch.zeros(rows, device=self.device) for _ in range(4)),
        )
        num_tasks, _, per_task = self.sampler.shape
        self._obs = torch.zeros(spec.num_envs, spec.obs_dim, device=self.device)
        self._index = torch.zeros(num_tasks, per_task, dtype=torch.int64, device=self.device)
        self._totals = torch.zeros(2, num_tasks + 1, device=self.device)  # per learner: losses and norm, over updates
        self._explained = torch.zeros((), device=self.device)

    def _build_graphs(self) -> None:
        self._sample = Graphed(self._sample_actions, self.device, self.generator)
        self._compute_targets = Graphed(self._targets, self.device)
        self._update = Graphed(self._update_once, self.device, self.generator)

    # Act

    @torch.no_grad()
    def act(self, obs: Tensor, task: Tensor, *, explore: bool) -> Tensor:
        """Choose actions (N, A) in [-1, 1]: the policy's mean, or a sample if exploring."""
        mean, log_std = self._policy_at(obs, task)
        return (self._perturb(mean, log_std) if explore else mean).clamp(-1.0, 1.0)

    def _perturb(self, mean: Tensor, log_std: Tensor) -> Tensor:
        noise = torch.randn(mean.shape, generator=self.generator, device=self.device)
        return mean + log_std.exp() * noise

    def _autocast(self) -> AbstractContextManager[Any]:
        # No cache of cast weights: a captured graph must cast them anew at every replay.
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.cfg.bf16, cache_enabled=False)

    def _policy_at(self, obs: Tensor, task: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log standard deviation (B, A) at raw observations (B, O)."""
        with self._autocast():
            mean, log_std = self.policy(self.obs_norm.normalize(obs, task), task)
        return mean, log_std

    def _value_at(self, obs: Tensor, task: Tensor) -> Tensor:
        """Return the critic's normalised values (B,) at raw observations (B, O)."""
        with self._autocast():
            value: Tensor = self.critic(self.obs_norm.normalize(obs, task), task)
        return value.squeeze(-1).float()

    # Collect

    def iterate(self, env: VecEnv) -> dict[str, Tensor]:
        """Collect T steps of every world, learn from them, and return metrics."""
        self._set_learning_rate()
        collect(env, self._explore, self.rollout)
        self._compute_targets()
        self._totals.zero_()
        for _ in range(self.cfg.epochs):
            for index in self.sampler.draw(self.generator):
                self._index.copy_(index)
                self._update()
        metrics = self._metrics()
        # Only now: while the policy learned from these rows it had to see them as it did when it acted.
        self.obs_norm.update(self.rollout.obs, self.task)
        self.iteration += 1
        return metrics

    @property
    def frames_per_iteration(self) -> int:
        """Environment steps that one iteration takes, over all worlds."""
        return self.cfg.horizon * self.spec.num_envs

    def _set_learning_rate(self) -> None:
        left = 1.0 - self.iteration * self.frames_per_iteration / self.total_frames
        factor = max(0.0, left) if self.cfg.schedule == "linear" else 1.0
        for learner in self.learners.values():
            learner.set_learning_rate(self.cfg.lr * factor)

    def _explore(self, obs: Tensor) -> Tensor:
        self._obs.copy_(obs)
        return self._sample()

    @torch.no_grad()
    def _sample_actions(self) -> Tensor:
        return self._perturb(*self._policy_at(self._obs, self.task))  # (N, A)

    # Targets

    @torch.no_grad()
    def _targets(self) -> None:
        """Fill in the rows' log-probabilities, values, advantages and targets, in chunks of a minibatch's size."""
        cfg, rows, rollout = self.cfg, self.rows, self.rollout
        next_obs, next_value = rollout.next_obs.flatten(0, 1), torch.empty_like(rows.value)
        for start in range(0, len(rows.task), cfg.minibatch):
            part = slice(start, start + cfg.minibatch)
            task = rows.task[part]
            rows.log_prob[part] = log_prob(rows.action[part], *self._policy_at(rows.obs[part], task))
            rows.value[part] = self._value_at(rows.obs[part], task)
            next_value[part] = self._value_at(next_obs[part], task)
        values = torch.stack([rows.value, next_value]).view(2, *rollout.reward.shape)  # (2, T, N)
        value, next_value = self.value_norm.denormalize(values.unsqueeze(-1), self.task).squeeze(-1)
        delta = td_error(rollout.reward, value, next_value, rollout.terminated, cfg.gamma)
        advantage = gae(delta, rollout.done, cfg.gamma, cfg.lam)  # (T, N)
        returns = (advantage + value).unsqueeze(-1)
        self.value_norm.update(returns, self.task)
        rows.target.copy_(self.value_norm.normalize(returns, self.task).flatten())
        rows.advantage.copy_(standardize(advantage, self.task, self.spec.num_tasks).flatten())
        self._explained.copy_(self._explained_variance(advantage, returns))

    def _explained_variance(self, advantage: Tensor, returns: Tensor) -> Tensor:
        """Return the share () of the returns' variance that the values explain, in units of each task's spread."""
        unit = self.value_norm.variance + 1e-8  # (K, 1)
        error, spread = (
            (task_moments(x, self.task, self.spec.num_tasks).variance / unit).sum()
            for x in (advantage.unsqueeze(-1), returns)
        )
        return 1.0 - error / (spread + 1e-8)

    # Losses

    def _actor_loss(self, policy: Net, rows: Rows) -> Tensor:
        """Return the clipped surrogate of every row (R,), less entropy, plus the penalty on means out of bounds."""
        cfg = self.cfg
        mean, log_std = policy(rows.obs, rows.task)
        ratio = torch.exp(log_prob(rows.action, mean, log_std) - rows.log_prob)
        clipped = ratio.clamp(1.0 - cfg.clip, 1.0 + cfg.clip)
        surrogate = torch.maximum(-rows.advantage * ratio, -rows.advantage * clipped)
        excess = (mean.abs() - cfg.bounds).clamp_min(0.0).square().sum(dim=-1)
        return surrogate - cfg.entropy_coef * entropy(log_std) + cfg.bounds_coef * excess

    def _critic_loss(self, critic: Net, rows: Rows) -> Tensor:
        """Return the squared error of every row's normalised value (R,), or that of the clipped value if larger."""
        cfg = self.cfg
        value = critic(rows.obs, rows.task).squeeze(-1).float()
        loss = (value - rows.target).square()
        if cfg.clip_value:
            clipped = rows.value + (value - rows.value).clamp(-cfg.clip, cfg.clip)
            loss = torch.maximum(loss, (clipped - rows.target).square())
        return cfg.value_coef * loss

    # Step

    def _update_once(self) -> None:
        """Take one optimiser step of actor and critic on the rows of `_index` and add up what they report."""
        batch = self._minibatch()
        for total, learner in zip(self._totals, self.learners.values(), strict=True):
            losses, norm = learner.step(batch)
            total += torch.cat([losses, norm.unsqueeze(0)])

    def _minibatch(self) -> Rows:
        """Gather the rows (K, b, ...) that `_index` names, observations normalised."""
        raw = Rows(*(tensor[self._index] for tensor in self.rows))
        return raw._replace(obs=self.obs_norm.normalize(raw.obs, raw.task))

    @torch.no_grad()
    def _metrics(self) -> dict[str, Tensor]:
        """Average over the updates, and compare the old policy with the new one on the last minibatch."""
        average = self._totals / (self.cfg.epochs * self.sampler.shape[1])
        (policy_loss, value_loss), (actor_norm, critic_norm) = average[:, :-1], average[:, -1]
        last = Rows(*(tensor.flatten(0, 1) for tensor in self._minibatch()))
        with self._autocast():
            mean, log_std = self.policy(last.obs, last.task)
        log_ratio = log_prob(last.action, mean, log_std) - last.log_prob
        ratio = log_ratio.exp()
        metrics = {
            "loss/policy": policy_loss.mean(),
            "loss/value": value_loss.mean(),
            "grad_norm/actor": actor_norm,
            "grad_norm/critic": critic_norm,
            "policy/entropy": entropy(log_std).mean(),
            "policy/std": log_std.exp().mean(),
            "policy/kl": (ratio - 1.0 - log_ratio).mean(),
            "policy/clip_fraction": ((ratio - 1.0).abs() > self.cfg.clip).float().mean(),
            "value/explained_variance": self._explained.clone(),
            "rollout/reward": self.rollout.reward.mean(),
        }
        for k, task in enumerate(self.spec.tasks):
            metrics[f"per_task/{task}/policy_loss"] = policy_loss[k]
            metrics[f"per_task/{task}/value_loss"] = value_loss[k]
        for name, learner in self.learners.items():
            metrics |= learner.conflicts(f"conflict/{name}")
        return metrics

    # Save

    def state_dict(self) -> dict[str, Any]:
        """Return all that a run needs to go on: tensors and plain values."""
        return {
            "learners": {name: learner.state_dict() for name, learner in self.learners.items()},
            "obs_norm": self.obs_norm.state_dict(),
            "value_norm": self.value_norm.state_dict(),
            "generator": self.generator.get_state(),
            "iteration": self.iteration,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned, possibly on another device."""
        for name, learner in self.learners.items():
            learner.load_state_dict(state["learners"][name])
        self.obs_norm.load_state_dict(state["obs_norm"])
        self.value_norm.load_state_dict(state["value_norm"])
        self.iteration = state["iteration"]
        generator = state["generator"].cpu()
        if len(generator) == len(self.generator.get_state()):  # a stream cannot move between CPU and GPU
            self.generator.set_state(generator)
        self._build_graphs()  # a captured graph would still hold the optimiser's former tensors
