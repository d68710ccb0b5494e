"""Train a deterministic policy off policy, with twin critics that predict the whole distribution of the return.

Seo et al., "FastTD3: Simple, Fast, and Capable Reinforcement Learning for Humanoid Control", 2025 (arXiv 2505.22642),
as MTBench (Joshi et al., RLC 2025, arXiv 2507.23172) extends it to many tasks. With `net=simba_v2` it is their
MT-FastTD3-SimbaV2. One iteration takes some steps of all worlds and runs its share of updates after each step. An
update draws one large task-major batch and gives the gradient method one loss per task. The critics learn in every
update, the actor in every `policy_delay`-th.

Differences from MTBench: A truncated episode bootstraps from its last observation. Batches hold the same number of rows
of every task. Rewards are scaled per task, with one running return for every world. The SimbaV2 actor has the size that
its own config gives. The first update moves the actor too, whatever the delay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from polytask.algos.shared.actor_layout import ActorLayout
from polytask.algos.shared.context import AlgoContext
from polytask.algos.shared.learner import autocast
from polytask.algos.shared.off_policy import OffPolicyConfig, OffPolicyLoop
from polytask.algos.shared.replay import ReplayBatch
from polytask.algos.shared.twin import TwinCritic, frozen_view, polyak, target_of
from polytask.algos.shared.values import TWINS, GridConfig, GridValues
from polytask.cuda_graph import Graphed, fused
from polytask.grads.backward import Net
from polytask.settings import require_order, setting, with_default
from polytask.types import VecEnv


@dataclass
class FastTD3Config(GridConfig, OffPolicyConfig):
    """Settings of FastTD3; the defaults are MTBench's where it has the setting."""

    name: str = "fast_td3"
    updates_per_step: float = with_default(OffPolicyConfig, "updates_per_step", 2.0)
    twin: str = setting("min", "min: believe the less hopeful of the two critics; mean: their average", choices=TWINS)
    policy_delay: int = setting(2, "updates of the critics per update of the actor", within=(1, 10_000))
    learning_starts: int = with_default(OffPolicyConfig, "learning_starts", 10)
    batch: int = with_default(OffPolicyConfig, "batch", 32768)
    capacity: int = with_default(OffPolicyConfig, "capacity", 8_388_608)
    gamma: float = setting(
        0.97, "discount per step; MTBench has 0.97 for MT10 and 0.99 for MT50", at_least=0.0, below=1.0
    )
    tau: float = with_default(OffPolicyConfig, "tau", 0.1)
    min_noise: float = setting(
        0.001,
        "smallest standard deviation of a world's exploration noise, which is drawn for every episode",
        at_least=0.0,
    )
    max_noise: float = setting(0.4, "largest standard deviation of a world's exploration noise", at_least=0.0)
    target_noise: float = setting(
        0.001, "standard deviation of the noise on the actions in the critics' targets", at_least=0.0
    )
    target_noise_clip: float = setting(0.5, "bound on the noise of the target actions", at_least=0.0)
    lr: float = setting(3e-4, "learning rate of actor and critics at the start (AdamW)", at_least=0.0)
    end_lr: float = setting(
        3e-4,
        "learning rate at the last frame, reached along a cosine; equal to `lr`, the rate is constant",
        at_least=0.0,
    )
    weight_decay: float = setting(
        0.1, "weight decay of AdamW; 0 for networks that normalize their weights, such as simba_v2", at_least=0.0
    )
    max_grad_norm: float = with_default(OffPolicyConfig, "max_grad_norm", math.inf)

    def check_together(self, prefix: str) -> None:
        """Check that the values of the distribution and the noise span a range."""
        require_order(self, prefix, "min_value", "max_value", is_strict=True)
        require_order(self, prefix, "min_noise", "max_noise")

    def actor_layout(self) -> ActorLayout:
        """Return where the policy is: a network that gives actions before squashing."""
        return ActorLayout("squash")


class TD3Actor(nn.Module):
    """A network whose output is squashed into [-1, 1] by a tanh."""

    def __init__(self, net: nn.Module) -> None:
        """Wrap a network (B, O), (B,) -> (B, A)."""
        super().__init__()
        self.net = net

    def forward(self, obs: Tensor, task: Tensor) -> Tensor:
        """Return actions (B, A) in float32."""
        return torch.tanh(self.net(obs, task).float())


class TD3CriticRows(NamedTuple):
    """The data that the critics' loss needs (K, b, ...)."""

    obs: Tensor  # (..., O)
    task: Tensor  # (...)
    action: Tensor  # (..., A)
    target: Tensor  # (..., M) distribution over the atoms


class TD3ActorRows(NamedTuple):
    """The data that the actor's loss needs (K, b, ...)."""

    obs: Tensor  # (..., O)
    task: Tensor  # (...)


class FastTD3:
    """FastTD3; `types.Algo` documents the public methods."""

    def __init__(self, cfg: FastTD3Config, context: AlgoContext) -> None:
        """Build networks, optimizers and the replay buffer."""
        self.cfg, self.spec, self.device = cfg, context.spec, context.device
        self.total_frames = context.total_frames
        self.values = GridValues(cfg, cfg.twin, self.device)
        self.loop = OffPolicyLoop(cfg, context, self.values.bound)
        self.frames_per_iteration = self.loop.frames_per_iteration
        self.experience, self.generator = self.loop.experience, self.loop.generator
        self.updates = 0
        self.noise_std = torch.zeros(context.spec.num_envs, 1, device=self.device)
        self._build_learners(context)
        self.loop.reserve(*self.values.metrics)
        self._build_graphs()

    def _build_learners(self, context: AlgoContext) -> None:
        self.policy = TD3Actor(context.actor_net(self.spec.action_dim))
        self.critic = TwinCritic(context, self.values.width)
        self.target, self.frozen_critic = target_of(self.critic), frozen_view(self.critic)
        self.loop.add_learner("actor", self.policy, self._actor_loss)
        self.loop.add_learner("critic", self.critic, self._critic_loss)
        self.learners = self.loop.learners
        self._fused_explore_from = fused(self._explore_from, self.device, is_wanted=self.cfg.compile)
        self._fused_targets = fused(self._targets, self.device, is_wanted=self.cfg.compile)

    def _build_graphs(self) -> None:
        self._explore = Graphed(self._choose_actions, self.device, self.generator)
        self._update_critic = Graphed(partial(self._update_once, moves_actor=False), self.device, self.generator)
        self._update_both = Graphed(partial(self._update_once, moves_actor=True), self.device, self.generator)

    # Act

    @torch.no_grad()
    def act(self, obs: Tensor, task: Tensor, *, explore: bool) -> Tensor:
        """Choose actions (N, A) in [-1, 1]; if `explore` is true, add noise of the mean standard deviation."""
        action = self._policy_at(self.experience.obs_norm.normalize(obs, task), task)
        if not explore:
            return action
        std = 0.5 * (self.cfg.min_noise + self.cfg.max_noise)
        return (action + std * self.loop.noise(action)).clamp(-1.0, 1.0)

    def _policy_at(self, obs: Tensor, task: Tensor) -> Tensor:
        """Return actions (..., A) at normalized observations (..., O)."""
        with autocast(self.device, self.cfg.bf16):
            action: Tensor = self.policy(obs.flatten(0, -2), task.flatten())
        return action.view(*task.shape, -1)

    # Collect

    def iterate(self, env: VecEnv) -> dict[str, Tensor]:
        """Take the steps of one iteration, run updates after each step, and return metrics."""
        delay, before = self.cfg.policy_delay, self.updates
        self._set_learning_rate()
        updates = self.loop.run(env, self._explore, self._update)
        actor_updates = -(-self.updates // delay) - -(-before // delay)
        scale = self.experience.reward_norm.scale()  # (K,)
        scales = {f"per_task/{task}/reward_scale": scale[k] for k, task in enumerate(self.spec.tasks)}
        return self.loop.metrics(updates, actor_updates) | scales

    def _set_learning_rate(self) -> None:
        cfg, done = self.cfg, min(1.0, self.loop.steps * self.spec.num_envs / self.total_frames)
        rate = cfg.end_lr + (cfg.lr - cfg.end_lr) * 0.5 * (1.0 + math.cos(math.pi * done))
        for learner in self.learners.values():
            learner.set_learning_rate(rate)

    def _choose_actions(self) -> None:
        """Write the own actions; a world at the start of an episode draws the standard deviation of its noise."""
        uniform = torch.rand(self.noise_std.shape, generator=self.generator, device=self.device)
        self._fused_explore_from(uniform, self.loop.world_noise(self.experience.own.action))

    @torch.no_grad()
    def _explore_from(self, uniform: Tensor, noise: Tensor) -> None:
        """Write the own actions, given uniform numbers (N, 1) of all worlds and standard normal noise (n, A)."""
        cfg, stage, own, task = self.cfg, self.experience.stage, self.experience.own, self.experience.own_task
        fresh = cfg.min_noise + (cfg.max_noise - cfg.min_noise) * uniform
        self.noise_std.copy_(torch.where(stage.done.unsqueeze(-1), fresh, self.noise_std))
        action = self._policy_at(self.experience.obs_norm.normalize(own.obs, task), task)
        std = self.experience.worlds.own(self.noise_std)
        own.action.copy_((action + std * noise).clamp(-1.0, 1.0))

    # Targets and losses

    @torch.no_grad()
    def _targets(self, batch: ReplayBatch, noise: Tensor) -> Tensor:
        """Return the critics' target distributions (K, b, M), from what both target critics give.

        Args:
            batch: Sampled rows.
            noise: Standard normal noise of the target actions. (K, b, A)
        """
        cfg = self.cfg
        action = self._policy_at(batch.next_obs, batch.task)
        noise = (cfg.target_noise * noise).clamp(-cfg.target_noise_clip, cfg.target_noise_clip)
        rows = (batch.next_obs, (action + noise).clamp(-1.0, 1.0), batch.task)
        with autocast(self.device, self.cfg.bf16):
            logits = self.target(*(tensor.flatten(0, 1) for tensor in rows))  # (2, K * b, M)
        return self.values.targets(logits, batch.reward, batch.discount)

    def _critic_loss(self, critic: Net, rows: TD3CriticRows) -> Tensor:
        """Return every row's cross-entropy (R,), summed over both critics."""
        return self.values.losses(critic(rows.obs, rows.action, rows.task), rows.target)

    def _actor_loss(self, policy: Net, rows: TD3ActorRows) -> Tensor:
        """Return every row's loss (R,): minus the value that both critics give."""
        logits = self.frozen_critic(rows.obs, policy(rows.obs, rows.task), rows.task)  # (2, R, M)
        return -self.values.of(logits)

    # Step

    def _update(self) -> None:
        """Run the next update; every `policy_delay`-th update moves the actor too."""
        (self._update_critic if self.updates % self.cfg.policy_delay else self._update_both)()
        self.updates += 1

    def _update_once(self, *, moves_actor: bool) -> None:
        """Take one optimizer step of the critics, and with `moves_actor` of the actor; move the target critics."""
        batch = self.loop.sample()
        target = self._fused_targets(batch, self.loop.batch_noise(batch.action))
        self.loop.learn("critic", TD3CriticRows(batch.obs, batch.task, batch.action, target))
        self.loop.report(self.values.summary(target))
        if moves_actor:
            self.loop.learn("actor", TD3ActorRows(batch.obs, batch.task))
        polyak(self.target, self.critic, self.cfg.tau)

    # Save

    def networks(self) -> dict[str, nn.Module]:
        """Return, by name, the networks and running statistics from which a new run can start."""
        return {**self.loop.networks(), "target": self.target}

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume the run; the replay buffer is included only with `save_replay`."""
        own = {"target": self.target.state_dict(), "noise_std": self.noise_std.clone(), "updates": self.updates}
        return {**self.loop.state_dict(), **own}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned, possibly on another device."""
        self.loop.load_state_dict(state)
        self.target.load_state_dict(state["target"])
        self.noise_std.copy_(state["noise_std"])
        self.updates = state["updates"]
        self._build_graphs()  # a captured graph would still use the optimizer's old tensors
