"""Train a tanh-squashed Gaussian policy to maximize reward plus entropy, off policy, with one temperature per task.

Haarnoja et al., "Soft Actor-Critic Algorithms and Applications", 2018 (arXiv 1812.05905), in two regimes: thousands of
worlds with large batches (MTBench: Joshi et al., RLC 2025, arXiv 2507.23172) and one world per task with batch 1280
(mtrl, PTSL). One iteration takes some steps of all worlds and runs its share of updates after each step. An update
draws one task-major batch and gives the gradient method one loss per task, for the actor and for the critics. With
`critic=categorical` the critics learn distributions of soft returns, as in BRC (Nauman et al. 2025, arXiv 2505.23150).

Differences from MTBench and mtrl: A truncated episode bootstraps from its last observation. Batches hold the same
number of rows of every task. Observation statistics come from new steps, not from replayed rows. Windows of n steps
stop at the end of an episode and are discounted by their actual length. Rewards are scaled per task by the standard
deviation of discounted returns. Gradients are clipped after they are computed, separately for actor and critics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from polytask.algos.shared.actor_layout import ActorLayout
from polytask.algos.shared.context import AlgoContext
from polytask.algos.shared.gaussian import log_prob
from polytask.algos.shared.learner import Learner, adam, autocast
from polytask.algos.shared.off_policy import OffPolicyConfig, OffPolicyLoop
from polytask.algos.shared.replay import ReplayBatch
from polytask.algos.shared.twin import TwinCritic, frozen_view, polyak, target_of
from polytask.algos.shared.values import TWINS, GridConfig, GridValues, ScalarValues, Values
from polytask.cuda_graph import Graphed, fused
from polytask.grads import Backward, build
from polytask.grads.backward import Net
from polytask.grads.mean import MeanConfig
from polytask.nets.task_axes import TaskAxis
from polytask.nets.task_code import rows as task_rows
from polytask.settings import require_order, setting
from polytask.types import VecEnv

CRITICS = ("mse", "categorical")


@dataclass
class SACConfig(GridConfig, OffPolicyConfig):
    """Settings of SAC; the defaults are for thousands of worlds."""

    name: str = "sac"
    critic: str = setting(
        "mse", "mse: critics predict the mean return; categorical: its distribution over a grid", choices=CRITICS
    )
    twin: str = setting("min", "min: believe the less hopeful of the two critics; mean: their average", choices=TWINS)
    initial_spread: float = setting(
        2.0,
        "standard deviation of the returns that untrained categorical critics predict; inf: all values of the grid are "
        "equally likely",
        within=(1e-3, math.inf),
    )
    alpha_lr: float = setting(5e-3, "learning rate of the logarithms of the temperatures (Adam)", at_least=0.0)
    initial_alpha: float = setting(
        0.1, "temperature of every task at the start, in units of the scaled rewards", above=0.0
    )
    entropy_per_action: float = setting(
        -1.0, "target entropy per action entry; with -1 the target is minus the number of entries", is_free=True
    )
    weigh_by_temperature: bool = setting(
        False, "weigh the tasks' losses by softmax(-temperature), so that tasks that are almost solved count more"
    )
    encoder_tau: float | None = setting(
        None,
        "the share of `tau` for the encoders of the critics (of CARE, PTSL and soft modularization; default: tau)",
        above=0.0,
        at_most=1.0,
    )
    min_log_std: float = setting(-5.0, "lower bound of the log standard deviation before squashing", is_free=True)
    max_log_std: float = setting(2.0, "upper bound of the log standard deviation before squashing", is_free=True)

    def check_together(self, prefix: str) -> None:
        """Check that the grid of returns and the bounds of the standard deviation span a range."""
        require_order(self, prefix, "min_value", "max_value", is_strict=True)
        require_order(self, prefix, "min_log_std", "max_log_std", is_strict=True)

    def actor_layout(self) -> ActorLayout:
        """Return where the policy is: a network that gives means and spreads before squashing."""
        return ActorLayout("squash", outputs=2)


class SquashedPolicy(nn.Module):
    """A normal distribution of pre-actions, given by a network; an action is the tanh of a pre-action."""

    def __init__(self, net: nn.Module, low: float, high: float) -> None:
        """Wrap a network (B, O), (B,) -> (B, 2 A) and keep log standard deviations between `low` and `high`."""
        super().__init__()
        self.net, self.low, self.high = net, low, high

    def forward(self, obs: Tensor, task: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean and the log standard deviation of the pre-action, (B, A) each and float32."""
        mean, raw = self.net(obs, task).float().chunk(2, dim=-1)
        # A tanh, not a clamp: outside its bounds a clamp has no gradient, so the value could never return.
        return mean, self.low + 0.5 * (self.high - self.low) * (1.0 + torch.tanh(raw))


def draw(mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Return the actions (..., A) that standard normal noise (..., A) gives, and their log-densities (...)."""
    before = mean + log_std.exp() * noise
    # log(1 - tanh^2 u), in a form that neither underflows nor loses digits for large u.
    shrink = 2.0 * (math.log(2.0) - before - functional.softplus(-2.0 * before))
    return torch.tanh(before), log_prob(before, mean, log_std) - shrink.sum(dim=-1)


class Temperature(nn.Module):
    """The weight of the entropy in the objective, learned for each task."""

    def __init__(self, num_tasks: int, initial: float) -> None:
        """Start all tasks at the same temperature."""
        super().__init__()
        self.log_alpha = nn.Parameter(torch.full((num_tasks,), math.log(initial)))
        self.task_axes = {"log_alpha": TaskAxis(0)}

    def forward(self, task: Tensor) -> Tensor:
        """Return the temperatures (...) of tasks (...)."""
        return task_rows(self.log_alpha.exp(), task)


class SACCriticRows(NamedTuple):
    """The data that the critics' loss needs (K, b, ...)."""

    obs: Tensor  # (..., O)
    task: Tensor  # (...)
    action: Tensor  # (..., A)
    target: Tensor  # (...), or (..., M) over the atoms of categorical critics


class SACActorRows(NamedTuple):
    """The data that the actor's loss needs (K, b, ...)."""

    obs: Tensor  # (..., O)
    task: Tensor  # (...)
    noise: Tensor  # (..., A) standard normal
    alpha: Tensor  # (...)


class AlphaRows(NamedTuple):
    """The data that the temperatures' loss needs (K, b)."""

    task: Tensor  # (...)
    log_prob: Tensor  # (...) of an action that the policy drew


def values_of(cfg: SACConfig, device: torch.device) -> Values:
    """Build what the critics predict."""
    if cfg.critic == "mse":
        return ScalarValues(cfg.twin)
    # Half of the grid, because soft returns also contain the discounted entropy, which the reward scale does not bound.
    return GridValues(cfg, cfg.twin, device, reward_share=0.5)


class SAC:
    """Soft actor-critic; `types.Algo` documents the public methods."""

    def __init__(self, cfg: SACConfig, context: AlgoContext) -> None:
        """Build networks, optimizers and the replay buffer."""
        self.cfg, self.spec, self.device = cfg, context.spec, context.device
        self.target_entropy = cfg.entropy_per_action * context.spec.action_dim
        self.values = values_of(cfg, self.device)
        self.loop = OffPolicyLoop(cfg, context, self.values.bound)
        self.frames_per_iteration = self.loop.frames_per_iteration
        self.experience, self.generator = self.loop.experience, self.loop.generator
        self._build_learners(context)
        self.loop.reserve("policy/entropy", *self.values.metrics)
        self._build_graphs()

    def _build_learners(self, context: AlgoContext) -> None:
        cfg, spec, device = self.cfg, self.spec, self.device
        net = context.actor_net(2 * spec.action_dim, parts=2)
        self.policy = SquashedPolicy(net, cfg.min_log_std, cfg.max_log_std)
        self.critic = TwinCritic(context, self.values.width)
        self.target, self.frozen_critic = target_of(self.critic), frozen_view(self.critic)
        self.temperature = Temperature(spec.num_tasks, cfg.initial_alpha).to(device)
        self.loop.add_learner("actor", self.policy, self._actor_loss)
        self.loop.add_learner("critic", self.critic, self._critic_loss)
        method = build(MeanConfig(), spec.num_tasks, device, self.generator)  # tasks share no parameter here
        ranks = context.ranks
        alpha = Backward(method, self.temperature, self._alpha_loss, is_fused=cfg.compile, ranks=ranks)
        self.learners = self.loop.learners
        self.learners["alpha"] = Learner(alpha, adam(self.temperature, cfg.alpha_lr, device))

        self._fused_sample = fused(self._sample, device, is_wanted=cfg.compile)
        self._fused_targets = fused(self._targets, device, is_wanted=cfg.compile)
        self._fused_density = fused(self._density, device, is_wanted=cfg.compile)

    def _build_graphs(self) -> None:
        self._explore = Graphed(self._choose_actions, self.device, self.generator)
        self._update = Graphed(self._update_once, self.device, self.generator)

    # Act

    @torch.no_grad()
    def act(self, obs: Tensor, task: Tensor, *, explore: bool) -> Tensor:
        """Choose actions (N, A) in [-1, 1]: the squashed mean, or a sample if `explore` is true."""
        if explore:
            noise = torch.randn(len(obs), self.spec.action_dim, generator=self.generator, device=self.device)
            return self._sample(obs, task, noise)
        return torch.tanh(self._policy_at(self.experience.obs_norm.normalize(obs, task), task)[0])

    @torch.no_grad()
    def _sample(self, obs: Tensor, task: Tensor, noise: Tensor) -> Tensor:
        """Return the actions (N, A) that standard normal noise (N, A) gives at raw observations (N, O)."""
        return draw(*self._policy_at(self.experience.obs_norm.normalize(obs, task), task), noise)[0]

    def _policy_at(self, obs: Tensor, task: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean and the log standard deviation (..., A) at normalized observations (..., O)."""
        with autocast(self.device, self.cfg.bf16):
            parts = self.policy(obs.flatten(0, -2), task.flatten())
        mean, log_std = (part.view(*task.shape, -1) for part in parts)
        return mean, log_std

    # Collect

    def iterate(self, env: VecEnv) -> dict[str, Tensor]:
        """Take the steps of one iteration, run updates after each step, and return metrics."""
        updates = self.loop.run(env, self._explore, self._update)
        alpha = self.temperature.log_alpha.detach().exp()  # (K,)
        metrics = {**self.loop.metrics(updates, updates), "policy/alpha": alpha.mean()}
        return metrics | {f"per_task/{task}/alpha": alpha[k] for k, task in enumerate(self.spec.tasks)}

    @torch.no_grad()
    def _choose_actions(self) -> None:
        own, task = self.experience.own, self.experience.own_task
        own.action.copy_(self._fused_sample(own.obs, task, self.loop.world_noise(own.action)))

    # Targets and losses

    @torch.no_grad()
    def _targets(self, batch: ReplayBatch, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return the critics' targets (K, b, *) and the temperatures (K, b), given standard normal noise (K, b, A).

        A target is the reward plus the discounted soft value of the target critics.
        """
        action, density = draw(*self._policy_at(batch.next_obs, batch.task), noise)  # (K, b, A), (K, b)
        rows = (batch.next_obs, action, batch.task)
        with autocast(self.device, self.cfg.bf16):
            both = self.target(*(tensor.flatten(0, 1) for tensor in rows))  # (2, K * b, width)
        alpha = self.temperature(batch.task)
        return self.values.targets(both, batch.reward, batch.discount, -alpha * density), alpha

    @torch.no_grad()
    def _density(self, obs: Tensor, task: Tensor, noise: Tensor) -> Tensor:
        """Return the log-densities (K, b) of the actions that noise (K, b, A) gives at normalized observations."""
        return draw(*self._policy_at(obs, task), noise)[1]

    def _critic_loss(self, critic: Net, rows: SACCriticRows) -> Tensor:
        """Return every row's squared error or cross-entropy (R,), summed over both critics."""
        return self._weighed(self.values.losses(critic(rows.obs, rows.action, rows.task), rows.target), rows.task)

    def _actor_loss(self, policy: Net, rows: SACActorRows) -> Tensor:
        """Return every row's loss (R,): temperature times log-density, minus the value that both critics give."""
        mean, log_std = policy(rows.obs, rows.task)
        action, density = draw(mean, log_std, rows.noise)
        loss = rows.alpha * density - self.values.of(self.frozen_critic(rows.obs, action, rows.task))
        return self._weighed(loss, rows.task)

    def _weighed(self, loss: Tensor, task: Tensor) -> Tensor:
        """Return losses (R,) of rows of tasks (R,), with `weigh_by_temperature` times weights whose mean is one.

        Yang et al. 2020 (soft modularization): a low temperature shows that a task needs little exploration.
        """
        if not self.cfg.weigh_by_temperature:
            return loss
        weights = self.spec.num_tasks * (-self.temperature.log_alpha.detach().exp()).softmax(0)  # (K,)
        return loss * task_rows(weights, task)

    def _alpha_loss(self, temperature: Net, rows: AlphaRows) -> Tensor:
        """Return every row's loss (R,), which raises temperatures at entropies below the target, and lowers others."""
        return -temperature(rows.task) * (rows.log_prob + self.target_entropy)

    # Step

    def _update_once(self) -> None:
        """Take one optimizer step of critics, actor and temperatures on a new batch, and move the target critics."""
        batch = self.loop.sample()
        target, alpha = self._fused_targets(batch, self.loop.batch_noise(batch.action))
        self.loop.learn("critic", SACCriticRows(batch.obs, batch.task, batch.action, target))
        noise = self.loop.batch_noise(batch.action)
        self.loop.learn("actor", SACActorRows(batch.obs, batch.task, noise, alpha))
        density = self._fused_density(batch.obs, batch.task, noise)
        self.learners["alpha"].step(AlphaRows(batch.task, density))
        self.loop.report(self.values.summary(target) | {"policy/entropy": -density.mean()})
        polyak(self.target, self.critic, self.cfg.tau, self.cfg.encoder_tau)

    # Save

    def networks(self) -> dict[str, nn.Module]:
        """Return, by name, the networks and running statistics from which a new run can start."""
        return {**self.loop.networks(), "target": self.target}

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume the run; the replay buffer is included only with `save_replay`."""
        return {**self.loop.state_dict(), "target": self.target.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned, possibly on another device."""
        self.loop.load_state_dict(state)
        self.target.load_state_dict(state["target"])
        self._build_graphs()  # a captured graph would still use the optimizer's old tensors
