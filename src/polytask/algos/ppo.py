"""Train a Gaussian policy and a value function by proximal policy optimization, every task with equal weight.

Schulman et al., "Proximal Policy Optimization Algorithms", 2017 (arXiv 1707.06347), with the hyperparameters of
MTBench (Joshi et al., RLC 2025, arXiv 2507.23172). One iteration collects T steps of all worlds, computes advantages
with GAE, and runs a few epochs of task-major minibatches. Each minibatch gives the gradient method one loss per task,
for the actor and for the critic.

Differences from MTBench's PPO: A truncated episode bootstraps from its last observation. Minibatches are shuffled in
every epoch and hold the same number of rows of every task. Advantages are standardized once, per task. The gradients
of actor and critic are clipped separately, so a method that scales the critic's gradient does not affect the actor.
Each task has its own standard deviation. Observation statistics stay fixed within an iteration, so the old and the new
policy see the same input.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from polytask.algos.shared.context import AlgoContext
from polytask.algos.shared.distributional import cross_entropy, expectation, smooth
from polytask.algos.shared.gaussian_actor import GaussianActor
from polytask.algos.shared.learner import Learner, adam, autocast
from polytask.algos.shared.normalize import TaskNormalizer, standardize, task_moments
from polytask.algos.shared.on_policy import OnPolicyLoop, chunks
from polytask.algos.shared.returns import gae, td_error
from polytask.algos.shared.rollout import num_minibatches
from polytask.algos.shared.surrogate import SurrogateConfig
from polytask.cuda_graph import Graphed, fused
from polytask.grads import Backward
from polytask.grads.backward import Facts, Net
from polytask.settings import setting
from polytask.types import VecEnv


@dataclass
class PPOConfig(SurrogateConfig):
    """Settings of PPO; the defaults are MTBench's where it has the setting."""

    name: str = "ppo"
    critic_may_see_more: ClassVar[bool] = True  # than the policy: `privileged=critic`
    horizon: int = setting(32, "steps T of every world per iteration", within=(1, 10**6))
    lam: float = setting(0.95, "weight of longer returns in GAE", within=(0.0, 1.0))
    clip_value: bool = setting(True, "clip the value loss too")
    value_coef: float = setting(
        2.0,
        "factor of the squared error of normalized values; Adam cancels it, so only gradient clipping sees it",
        above=0.0,
    )
    critic: str = setting(
        "mse",
        "the critic's loss: mse (squared error of one value) or categorical (cross-entropy of a distribution over "
        "`atoms` values, whose mean is the value)",
        choices=("mse", "categorical"),
    )
    atoms: int = setting(101, "number of values of the categorical critic", within=(2, 10_000))
    value_bound: float = setting(
        10.0, "largest magnitude of these values, in standard deviations of the task's returns", above=0.0
    )
    value_decay: float = setting(
        0.99,
        "weight that earlier iterations keep in the return statistics, because returns change during training",
        within=(0.0, 1.0),
    )


class PPORows(NamedTuple):
    """The data that the losses need: all rows of a rollout (T * N, ...), or a minibatch (K, b, ...)."""

    obs: Tensor  # (..., O)
    task: Tensor  # (...)
    action: Tensor  # (..., A)
    log_prob: Tensor  # (...) of the action under the policy that chose it
    mean: Tensor  # (..., A) of this policy
    log_std: Tensor  # (..., A) of this policy
    last_obs: Tensor  # (..., O) of the step before; this and the next have no width if the noise is white
    last_action: Tensor  # (..., A)
    past_obs: Tensor  # (..., O) of a step that led to a success; this and the next have no width without imitation
    past_action: Tensor  # (..., A) of that step
    advantage: Tensor  # (...) standardized per task
    value: Tensor  # (...) the critic's output before the update
    target: Tensor  # (...) normalized return


class PPO:
    """Proximal policy optimization; `types.Algo` documents the public methods."""

    def __init__(self, cfg: PPOConfig, context: AlgoContext) -> None:
        """Build networks, optimizers and buffers."""
        self.cfg, self.spec, self.device = cfg, context.spec, context.device
        rows = cfg.horizon * self.spec.num_envs
        self._rows_per_update = cfg.rows_per_update(rows)
        self.loop = OnPolicyLoop(cfg, context, cfg.horizon, num_minibatches(rows, self._rows_per_update))
        self.frames_per_iteration = self.loop.frames_per_iteration
        self.rollout, self.obs_norm, self.task = self.loop.rollout, self.loop.obs_norm, self.loop.task
        self.generator = self.loop.generator
        self._build_learners(context)
        # Every tensor that a captured graph reads or writes is allocated once.
        empty = (torch.zeros(self.frames_per_iteration, device=self.device) for _ in range(3))
        self.rows = PPORows(*self.loop.columns(), *self.actor.columns(), *empty)
        self._own_columns = self.loop.own_columns()
        # (2, T * n) of the observations before and after the actions of the worlds of this rank
        self._own_values = torch.zeros(2, self.loop.own.reward.numel(), device=self.device)
        self._explained = torch.zeros((), device=self.device)
        change = self.actor.change(self.learners["actor"])
        self.loop.start(self.rows, self.learners, self.actor.sample, change, self.actor.counted)
        self._fused_value_at = fused(self._value_at, self.device, is_wanted=cfg.compile)
        self._compute_values = Graphed(self._values, self.device)
        self._compute_targets = Graphed(self._targets, self.device)

    def _build_learners(self, context: AlgoContext) -> None:
        cfg, spec = self.cfg, self.spec
        self.actor = GaussianActor(cfg, context, self.loop)
        self.policy = self.actor.policy
        self.is_categorical = cfg.critic == "categorical"
        self._atoms = torch.linspace(-cfg.value_bound, cfg.value_bound, cfg.atoms, device=self.device)  # (M,)
        self.critic = context.value_net(cfg.atoms if self.is_categorical else 1)
        self.value_norm = TaskNormalizer(spec.num_tasks, 1, decay=cfg.value_decay).to(self.device)
        critic_method = context.grad_method("critic", self.generator)
        autocast = torch.bfloat16 if cfg.bf16 else None
        ranks = context.ranks
        critic = Backward(critic_method, self.critic, self._critic_loss, autocast, is_fused=cfg.compile, ranks=ranks)
        self.learners = {
            "actor": self.actor.learner(context.grad_method("actor", self.generator), self._actor_loss),
            "critic": Learner(critic, adam(self.critic, cfg.lr, self.device), cfg.max_grad_norm),
        }

    # Act

    def act(self, obs: Tensor, task: Tensor, *, explore: bool) -> Tensor:
        """Choose actions (N, A) in [-1, 1]: the policy's mean, or a sample if `explore` is true."""
        return self.actor.act(obs, task, explore=explore)

    def _value_at(self, obs: Tensor, task: Tensor) -> Tensor:
        """Return the critic's normalized values (B,) at raw observations (B, O)."""
        with autocast(self.device, self.cfg.bf16):
            output: Tensor = self.critic(self.obs_norm.normalize(obs, task), task)
        return expectation(output.float(), self._atoms) if self.is_categorical else output.squeeze(-1).float()

    # Collect

    def imitate(self, task: Tensor, obs: Tensor, action: Tensor) -> None:
        """Begin with demonstrated steps (M, ...); `types.Imitates` documents it."""
        self.actor.imitate(task, obs, action)

    def iterate(self, env: VecEnv) -> dict[str, Tensor]:
        """Collect T steps of every world, learn from them, and return metrics."""
        self.actor.begin()
        self.loop.collect(env)
        self.actor.reward_search()
        self._compute_values()
        self._bootstrap()
        self._compute_targets()
        self.actor.remember()
        self.actor.anneal()
        metrics = {
            **self.loop.learn(),
            **self.loop.merge(self.actor.metrics(self.loop.last())),
            "value/explained_variance": self._explained.clone(),
        }
        self.loop.finish()
        self.actor.settle()
        return metrics

    # Targets

    @torch.no_grad()
    def _values(self) -> None:
        """Compute the values of the own rows, in chunks of the minibatch size."""
        obs, task, _ = self._own_columns
        for part in chunks(len(task), self._rows_per_update):
            self._own_values[0, part] = self._fused_value_at(obs[part], task[part])

    @torch.no_grad()
    def _bootstrap(self) -> None:
        """Find the values of the next observations of the own rows: mostly those of the next rows, which are known.

        The next row has another observation after the last step and where an episode was truncated. After a terminated
        step no value is used.
        """
        value, next_value = self._own_values
        truncated = self.loop.own.truncated  # (T, n)
        worlds = truncated.shape[1]
        next_value[:-worlds] = value[worlds:]
        is_unknown = truncated.clone()
        is_unknown[-1] = True
        _, task, next_obs = self._own_columns
        # Waits for the device once per iteration. Not compiled, because the number of these rows is always another.
        for part in is_unknown.flatten().nonzero().squeeze(-1).split(self._rows_per_update):
            next_value[part] = self._value_at(next_obs[part], task[part])

    @torch.no_grad()
    def _targets(self) -> None:
        """Put the values of all ranks together; compute advantages and targets of all rows."""
        cfg, rows, rollout = self.cfg, self.rows, self.rollout
        values = self.loop.gather(self._own_values)  # (2, T, N)
        rows.value.copy_(values[0].flatten())
        value, next_value = self.value_norm.denormalize(values.unsqueeze(-1), self.task).squeeze(-1)
        delta = td_error(rollout.reward, value, next_value, rollout.terminated, cfg.gamma)
        advantage = gae(delta, rollout.done, cfg.gamma, cfg.lam)  # (T, N)
        returns = (advantage + value).unsqueeze(-1)
        self.value_norm.update(returns, self.task, self.actor.counted)
        rows.target.copy_(self.value_norm.normalize(returns, self.task).flatten())
        rows.advantage.copy_(standardize(advantage, self.task, self.spec.num_tasks, self.actor.counted).flatten())
        self._explained.copy_(self._explained_variance(advantage, returns))

    def _explained_variance(self, advantage: Tensor, returns: Tensor) -> Tensor:
        """Return the share () of the return variance that the values explain, every task scaled by its variance."""
        unit = self.value_norm.variance + 1e-8  # (K, 1)
        error, spread = (
            (task_moments(x, self.task, self.spec.num_tasks, self.actor.counted).variance / unit).sum()
            for x in (advantage.unsqueeze(-1), returns)
        )
        return 1.0 - error / (spread + 1e-8)

    # Losses

    def _actor_loss(self, policy: Net, rows: PPORows) -> tuple[Tensor, Facts]:
        """Return every row's loss (R,): clipped surrogate, minus entropy, plus penalty on means out of bounds.

        All of it is multiplied by the weight of the task.
        """
        found = self.actor.surrogate(policy, rows)
        return self.actor.weighted(found.loss, rows), found.facts

    def _critic_loss(self, critic: Net, rows: PPORows) -> Tensor:
        """Return every row's squared error (R,) of the normalized value, or of the clipped value if it is larger.

        A categorical critic has the cross-entropy against the smoothed target instead. Its steps are bounded by nature:
        no derivative of a logit is above one, however far the target is. So it needs no clipping.
        """
        cfg = self.cfg
        output = critic(rows.obs, rows.task).float()
        if self.is_categorical:
            return cfg.value_coef * cross_entropy(output, smooth(rows.target, self._atoms))
        value = output.squeeze(-1)
        loss = (value - rows.target).square()
        if cfg.clip_value:
            clipped = rows.value + (value - rows.value).clamp(-cfg.clip, cfg.clip)
            loss = torch.maximum(loss, (clipped - rows.target).square())
        return cfg.value_coef * loss

    # Save

    def networks(self) -> dict[str, nn.Module]:
        """Return, by name, the networks and running statistics from which a new run can start."""
        return {**self.loop.networks(), "value_norm": self.value_norm}

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume the run: tensors and plain values."""
        return {**self.loop.state_dict(), **self.actor.state_dict(), "value_norm": self.value_norm.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned, possibly on another device."""
        self.loop.load_state_dict(state)
        self.actor.load_state_dict(state)
        self.value_norm.load_state_dict(state["value_norm"])
