"""Parts that PPO and GRPO share: settings, a Gaussian policy that explores, and its clipped surrogate loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from polytask.algos.shared.actor_layout import ActorLayout
from polytask.algos.shared.context import AlgoContext
from polytask.algos.shared.correlated_noise import CorrelatedNoise, given_last
from polytask.algos.shared.gaussian import GaussianPolicy, StdRange, entropy, kl_divergence, log_prob
from polytask.algos.shared.learner import Learner, adam, autocast
from polytask.algos.shared.novelty import Novelty
from polytask.algos.shared.on_policy import SCHEDULES, OnPolicyConfig, OnPolicyLoop, Rows
from polytask.algos.shared.policy_change import AdaptiveRate, PolicyChange
from polytask.algos.shared.recent_success import RecentSuccess
from polytask.algos.shared.rollout import Choice
from polytask.cuda_graph import fused
from polytask.errors import UserError
from polytask.grads import Backward, GradMethod
from polytask.grads.backward import Facts, Loss, Net
from polytask.settings import require_order, setting
from polytask.types import EnvSpec


@dataclass
class SurrogateConfig(OnPolicyConfig):
    """Settings of the policy and its updates; the defaults are MTBench's where it has the setting."""

    most_rows: ClassVar[int] = 32768  # per update, unless the user sets `minibatch`

    minibatch: int | None = setting(
        None,
        "rows per update, the same number for every task (default: a quarter of an iteration's rows, at most 32768)",
        within=(1, 10**9),
    )
    gamma: float = setting(0.99, "discount per step", within=(0.0, 1.0))
    clip: float = setting(
        0.2, "bound on the change of the probability ratio and, in normalized units, of the critic's value", above=0.0
    )
    entropy_coef: float = setting(0.005, "weight of the policy's entropy in the objective", at_least=0.0)
    final_entropy_coef: float | None = setting(
        None, "this weight at the last frame, reached linearly (default: it is constant)", at_least=0.0
    )
    search_entropy_coef: float | None = setting(
        None,
        "this weight for a task that never succeeds; with a task's recent success it falls to `entropy_coef` (default: "
        "all tasks have the same)",
        at_least=0.0,
    )
    search_correlation: float = setting(
        0.0,
        "correlation of the noise of successive steps in a task that never succeeds; with a task's recent success it "
        "falls to zero",
        within=(0.0, 0.999),
    )
    search_correlation_start: int = setting(
        0, "frames of the run before the noise is correlated, so that easier tasks learn without it", within=(0, 10**15)
    )
    search_correlation_std: float | None = setting(
        None,
        "upper bound of the standard deviation of a task that never succeeds while its noise is correlated, because "
        "noise that lasts goes further (default: `max_std`)",
        above=0.0,
    )
    novelty_coef: float = setting(
        0.0,
        "weight of a bonus for new places of hand and objects, in the reward of a task that fails; it falls to zero "
        "with a task's recent success",
        at_least=0.0,
    )
    novelty_start: int = setting(
        0, "frames of the run before novelty is paid; no place counts as visited before", within=(0, 10**15)
    )
    success_coef: float = setting(
        0.0,
        "bonus for every step that succeeds, in the reward of a task that fails; it falls to zero with a task's recent "
        "success",
        at_least=0.0,
    )
    solved_weight: float = setting(
        1.0,
        "weight of a task that always succeeds in the policy's loss; with a task's recent success its weight falls "
        "from 1 to this, so that the updates serve tasks that fail",
        within=(0.0, 1.0),
    )
    bounds_coef: float = setting(1e-4, "penalty on the squared excess of an action's mean over `bounds`", at_least=0.0)
    bounds: float = setting(
        1.1,
        "largest magnitude of a mean without penalty; beyond it the environment's clipping hides the gradient",
        at_least=0.0,
    )
    schedule: str = setting(
        "constant",
        "learning rate over the run: constant, linear to zero at the last frame, or adaptive, which keeps the policy's "
        "change near `target_kl`",
        choices=(*SCHEDULES, "adaptive"),
    )
    target_kl: float = setting(
        0.012,
        "divergence from the policy that acted that schedule=adaptive aims at: an epoch of twice as much divides the "
        "policy's rate by 1.5, one of half as much multiplies it",
        above=0.0,
    )
    min_lr: float = setting(1e-5, "lowest learning rate of schedule=adaptive", at_least=0.0)
    max_lr: float = setting(1e-2, "highest learning rate of schedule=adaptive", at_least=0.0)
    first_lr: float | None = setting(
        None,
        "the policy's learning rate at the start of schedule=adaptive (default: `lr`); a low one spares a policy that "
        "`init_from` brings, and rises by itself within a few iterations",
        at_least=0.0,
    )
    max_grad_norm: float = setting(
        1.0, "bound on the norm of the gradient, for each network separately", above=0.0, at_most=math.inf
    )
    task_std: bool = setting(True, "use one standard deviation per task instead of one for all tasks")
    initial_std: float = setting(1.0, "standard deviation of the first policy; actions lie in [-1, 1]", above=0.0)
    min_std: float = setting(
        0.02, "lower bound of the standard deviation; below it log-densities are too steep to learn from", above=0.0
    )
    max_std: float = setting(
        2.0,
        "upper bound of the standard deviation; without it entropy inflates the noise of a task without reward",
        above=0.0,
    )
    final_std: float | None = setting(
        None,
        "upper bound of the standard deviation of a task that always succeeds; with a task's recent success its bound "
        "falls from `max_std` to this (default: it does not fall)",
        above=0.0,
    )
    search_std: float | None = setting(
        None,
        "lower end of the noise of a task that never succeeds: its standard deviation swings between `max_std` and "
        "this, because noise finds a task and precision finishes it (default: it does not swing)",
        above=0.0,
    )
    search_period: int | None = setting(
        None, "iterations in which this noise falls from `max_std` to `search_std` and returns", within=(2, 10**6)
    )
    bf16: bool = setting(False, "run the networks in bfloat16; parameters, losses and targets stay float32")

    def check_together(self, prefix: str) -> None:
        """Check that the standard deviation, and a rate that is adapted, start within their bounds."""
        self._check_noise(prefix)
        self._check_search(prefix)
        if self.schedule == "adaptive":
            require_order(self, prefix, "min_lr", "lr")
            require_order(self, prefix, "lr", "max_lr")
        if self.first_lr is not None:
            if self.schedule != "adaptive":
                raise UserError(f"{prefix}first_lr starts {prefix}schedule=adaptive; set that too, or leave it out")
            require_order(self, prefix, "min_lr", "first_lr")
            require_order(self, prefix, "first_lr", "max_lr")

    def _check_noise(self, prefix: str) -> None:
        """Check the bounds of the standard deviation."""
        require_order(self, prefix, "min_std", "initial_std")
        require_order(self, prefix, "initial_std", "max_std")
        for name in ("final_std", "search_std", "search_correlation_std"):
            if getattr(self, name) is not None:
                require_order(self, prefix, "min_std", name)
                require_order(self, prefix, name, "max_std")
                if not self.task_std:
                    raise UserError(f"{prefix}{name} bounds each task's own noise, so it needs {prefix}task_std=true")

    def _check_search(self, prefix: str) -> None:
        """Check that what belongs together in the search is set together."""
        if (self.search_std is None) != (self.search_period is None):
            raise UserError(f"{prefix}search_std and {prefix}search_period need each other; set both, or neither")
        if self.search_correlation_std is not None:
            name = f"{prefix}search_correlation"
            if self.search_correlation == 0:
                raise UserError(f"{name}_std bounds correlated noise; set {name} too, or leave it out")
            if self.search_std is not None:
                raise UserError(f"{name}_std and {prefix}search_std bound the same noise; set only one")
        for start, delayed in (("novelty_start", "novelty_coef"), ("search_correlation_start", "search_correlation")):
            if getattr(self, start) > 0 and getattr(self, delayed) == 0:
                raise UserError(f"{prefix}{start} delays {prefix}{delayed}; set that too, or leave it out")

    def actor_layout(self) -> ActorLayout:
        """Return where the policy is: a network that gives means, which the environment clips."""
        return ActorLayout("clip")

    def rows_per_update(self, rows: int) -> int:
        """Return the size of a minibatch, given the rows of an iteration.

        Four updates per pass suit every size. A size that is chosen for a GPU would leave a small run with one.
        """
        return self.minibatch or max(1, min(self.most_rows, rows // 4))


class GaussianActor:
    """A Gaussian policy that normalizes raw observations as a loop does."""

    def __init__(self, cfg: SurrogateConfig, context: AlgoContext, loop: OnPolicyLoop) -> None:
        """Build the policy, which draws its noise from the loop's generator."""
        spec = context.spec
        self.cfg, self.device, self.action_dim = cfg, context.device, spec.action_dim
        self.loop, self.generator, self.obs_norm, self.worlds = loop, loop.generator, loop.obs_norm, loop.worlds
        # A captured update reads the weights, so they are changed in place.
        self.entropy_coef = torch.full((spec.num_tasks,), cfg.entropy_coef, device=self.device)
        self.loss_weight = torch.ones_like(self.entropy_coef)
        self.novelty = self._novelty(spec)
        is_correlated = cfg.search_correlation > 0
        self.noise = CorrelatedNoise(loop.own_task, spec.num_tasks, spec.action_dim) if is_correlated else None
        self.mean_bonus = torch.zeros((), device=self.device)
        self.pays_bonus = cfg.novelty_coef > 0 or cfg.success_coef > 0
        self.bounds_noise = any(std is not None for std in (cfg.final_std, cfg.search_std, cfg.search_correlation_std))
        explores = self.bounds_noise or cfg.search_entropy_coef is not None or self.pays_bonus or is_correlated
        counts_success = explores or cfg.solved_weight < 1
        self.success = RecentSuccess(loop.task, spec.num_tasks) if counts_success else None
        std = StdRange(cfg.initial_std, cfg.min_std, cfg.max_std)
        net = context.actor_net(spec.action_dim)
        policy = GaussianPolicy(net, spec.num_tasks, spec.action_dim, cfg.task_std, std, width=spec.actor_dim)
        self.policy = policy.to(self.device)
        self._fused_choose = fused(self._choose, self.device, is_wanted=cfg.compile)

    def _novelty(self, spec: EnvSpec) -> Novelty | None:
        if self.cfg.novelty_coef == 0:
            return None
        if not spec.places:
            raise UserError("algo.novelty_coef does not apply: these tasks declare no places of objects; leave it at 0")
        return Novelty(spec.places, self.loop.task, spec.num_tasks)

    def columns(self) -> tuple[Tensor, ...]:
        """Return the columns of the rollout that the surrogate needs, from `log_prob` to `last_action`."""
        return *self.loop.gaussian_columns(), *self.loop.last_columns(self.noise is not None)

    def learner(self, method: GradMethod, loss: Loss) -> Learner:
        """Build a learner that trains the policy on a loss per row."""
        autocast = torch.bfloat16 if self.cfg.bf16 else None
        ranks = self.worlds.ranks
        backward = Backward(method, self.policy, loss, autocast, is_fused=self.cfg.compile, ranks=ranks)
        return Learner(backward, adam(self.policy, self.cfg.lr, self.device), self.cfg.max_grad_norm)

    @torch.no_grad()
    def begin(self) -> None:
        """Before a rollout, let correlated noise go on from how far the last actions are from the means of today."""
        if self.noise is not None:
            obs, action = self.loop.own.end
            self.noise.continue_from(action - self.at(obs, self.loop.own_task)[0])

    def reward_search(self) -> None:
        """After a rollout, pay tasks that fail for new places of hand and objects, and for steps that succeed."""
        if not self.pays_bonus or self.success is None:
            return
        rollout = self.loop.rollout
        bonus = self.cfg.success_coef * rollout.success.float()  # (T, N)
        if self.novelty is not None and self.loop.frames >= self.cfg.novelty_start:
            bonus += self.cfg.novelty_coef * self.novelty.bonus(rollout.obs, rollout.done)
        bonus *= (1 - self.success.rate())[self.loop.task]
        rollout.reward += bonus
        self.mean_bonus.copy_(bonus.mean())

    def anneal(self) -> None:
        """Before the updates of an iteration, set the weights of each task's loss and of its entropy."""
        cfg = self.cfg
        final = cfg.entropy_coef if cfg.final_entropy_coef is None else cfg.final_entropy_coef
        coef = cfg.entropy_coef + min(1.0, self.loop.progress) * (final - cfg.entropy_coef)
        self.entropy_coef.fill_(coef)
        if self.success is None:
            return
        success = self.success.rate()
        self.loss_weight.copy_(1 - (1 - cfg.solved_weight) * success)
        if cfg.search_entropy_coef is not None:
            self.entropy_coef += (1 - success) * (cfg.search_entropy_coef - coef)

    def settle(self) -> None:
        """After an iteration, count success; bound and correlate the noise of each task by it.

        Not before its updates: the policy would no longer be the one that acted, and an adaptive rate would take the
        difference for steps that are too long.
        """
        if self.success is not None:
            self.success.update(self.loop.rollout.success, self.loop.rollout.done)
            self._bound_noise(self.success)
            if self.noise is not None and self._is_correlated:
                self.noise.correlate(self.cfg.search_correlation * (1 - self.success.rate()))
            self.policy.after_step()

    @property
    def _is_correlated(self) -> bool:
        """Whether the noise of tasks that fail is correlated in the next iteration."""
        return self.noise is not None and self.loop.frames >= self.cfg.search_correlation_start

    def _bound_noise(self, success: RecentSuccess) -> None:
        """Bound the noise of each task: by the search while it fails, by `final_std` once it succeeds."""
        if not self.bounds_noise:
            return
        cfg, rate = self.cfg, success.rate()
        least, final = (math.log(std) for std in (cfg.min_std, cfg.final_std or cfg.max_std))
        most = math.log((self._is_correlated and cfg.search_correlation_std) or cfg.max_std)
        swing = self._swing(len(rate))
        lowest, highest = (torch.full_like(rate, each) for each in (least, most)) if swing is None else (swing, swing)
        self.policy.bound(lowest + rate * (least - lowest), highest + rate * (final - highest))

    def _swing(self, num_tasks: int) -> Tensor | None:
        """Return the logarithm of the noise (K,) of tasks that fail in the next iteration, if it swings."""
        cfg = self.cfg
        if cfg.search_std is None or cfg.search_period is None:
            return None
        # Each task at another time: together they would make the policy's steps short and long in turn.
        number = torch.arange(num_tasks, device=self.device)
        phase = self.loop.iteration / cfg.search_period + number / num_tasks
        most, least = math.log(cfg.max_std), math.log(cfg.search_std)
        return most + (0.5 - 0.5 * torch.cos(2 * math.pi * phase)) * (least - most)

    def change(self, learner: Learner) -> PolicyChange:
        """Watch how far the updates of the policy's learner move it, and adapt the rate if the settings ask for it."""
        cfg = self.cfg
        adaptive = AdaptiveRate(cfg.target_kl, cfg.min_lr, cfg.max_lr, cfg.first_lr)
        return PolicyChange(learner, adaptive if cfg.schedule == "adaptive" else None)

    @property
    def share(self) -> Tensor | None:
        """The share (K,) of the last noise that each task keeps; None if noise is white."""
        return None if self.noise is None else self.noise.share

    def surrogate(self, policy: Net, rows: Rows) -> Surrogate:
        """Return the surrogate of rows (R, ...), with the entropy and the noise of today."""
        return surrogate_loss(self.cfg, self.entropy_coef, policy, rows, self.share)

    def weighted(self, loss: Tensor, rows: Rows) -> Tensor:
        """Multiply the loss of every row (R,) by the weight of its task."""
        return self.loss_weight[rows.task] * loss

    def at(self, obs: Tensor, task: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean and the log standard deviation (B, A) at raw observations (B, O)."""
        with autocast(self.device, self.cfg.bf16):
            mean, log_std = self.policy(self.obs_norm.normalize(obs, task), task)
        return mean, log_std

    @torch.no_grad()
    def act(self, obs: Tensor, task: Tensor, *, explore: bool) -> Tensor:
        """Choose actions (N, A) in [-1, 1]: the policy's mean, or a sample if `explore` is true."""
        mean, log_std = self.at(obs, task)
        action = mean + log_std.exp() * self._noise(len(obs)) if explore else mean
        return action.clamp(-1.0, 1.0)

    def sample(self, obs: Tensor, task: Tensor) -> Choice:
        """Sample actions (n, A) for the worlds of this rank, without clipping them."""
        return self._fused_choose(obs, task, self.worlds.draw(self._noise))

    def _choose(self, obs: Tensor, task: Tensor, noise: Tensor) -> Choice:
        """Return the actions that standard normal noise (n, A) gives, and the distribution that they come from."""
        own_mean, log_std = self.at(obs, task)
        mean, log_std = (own_mean, log_std) if self.noise is None else self.noise.next(own_mean, log_std)
        action = mean + log_std.exp() * noise
        if self.noise is not None:
            self.noise.continue_from(action - own_mean)
        return Choice(action, log_prob(action, mean, log_std), mean, log_std)

    def _noise(self, count: int) -> Tensor:
        return torch.randn(count, self.action_dim, generator=self.generator, device=self.device)

    @torch.no_grad()
    def metrics(self, rows: Rows) -> dict[str, Tensor]:
        """Return metrics of the policy, and of its distance from the policy that chose the actions of these rows."""
        with autocast(self.device, self.cfg.bf16):
            _, mean, log_std = distribution(self.policy, rows, self.share)
        log_ratio = log_prob(rows.action, mean, log_std) - rows.log_prob
        found = {
            "policy/entropy": entropy(log_std).mean(),
            "policy/std": self.policy.log_std.exp().mean(),
            "policy/kl": kl_divergence(rows.mean, rows.log_std, mean, log_std).mean(),
            "policy/clip_fraction": ((log_ratio.exp() - 1.0).abs() > self.cfg.clip).float().mean(),
        }
        if self.pays_bonus:
            found["rollout/bonus"] = self.mean_bonus.clone()
        if self.success is not None:
            names = (f"per_task/{task}/std" for task in self.loop.spec.tasks)
            found |= zip(names, self.policy.log_std.exp().mean(dim=-1).unbind(), strict=True)
        return found

    def state_dict(self) -> dict[str, Any]:
        """Return the recent success of the tasks, the places of objects and the noise, if something depends on them."""
        found = {} if self.success is None else self.success.state_dict()
        parts = {"novelty": self.novelty, "noise": self.noise}
        found |= {name: part.state_dict() for name, part in parts.items() if part is not None}
        if self.noise is not None:
            found["last_step"] = {name: each.clone() for name, each in self.loop.rollout.end._asdict().items()}
        return found

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        if self.success is not None:
            self.success.load_state_dict(state)
            self._bound_noise(self.success)
        for name, part in (("novelty", self.novelty), ("noise", self.noise)):
            if part is not None and name in state:  # a run may be continued with settings that it did not have
                part.load_state_dict(state[name])
        if "last_step" in state:
            loop = self.loop
            for everyone, own, saved in zip(loop.rollout.end, loop.own.end, state["last_step"].values(), strict=True):
                everyone.copy_(saved)
                own.copy_(self.worlds.own(everyone))


class Surrogate(NamedTuple):
    """The clipped surrogate of R rows."""

    loss: Tensor  # (R,)
    log_ratio: Tensor  # (R,) logarithm of the probability ratio, new policy over old policy
    facts: Facts  # `policy_change.FACTS`


def distribution(policy: Net, rows: Rows, share: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return the policy's own mean, and mean and log std of the distribution that the actions come from, (R, A) each.

    Args:
        policy: Maps (obs, task) to its own mean and log std (R, A).
        rows: `obs` and `last_obs` (R, O), `task` (R,) and `last_action` (R, A).
        share: Share (K,) of the last noise that each task keeps; None if noise is white.
    """
    own_mean, log_std = policy(rows.obs, rows.task)
    if share is None:
        return own_mean, own_mean, log_std
    last_mean, _ = policy(rows.last_obs, rows.task)
    return own_mean, *given_last(own_mean, log_std, rows.last_action - last_mean, share[rows.task])


def surrogate_loss(
    cfg: SurrogateConfig, entropy_coef: Tensor, policy: Net, rows: Rows, share: Tensor | None = None
) -> Surrogate:
    """Compute each row's clipped surrogate, minus entropy, plus the penalty on means out of bounds.

    Args:
        cfg: Settings.
        entropy_coef: Weight (K,) of the entropy in each task.
        policy: Maps (obs, task) to mean and log standard deviation (R, A).
        rows: Normalized `obs` (R, O), `task` (R,), unclipped `action` (R, A), its `log_prob` (R,) under the policy that
            drew it, this policy's `mean` and `log_std` (R, A), and the action's `advantage` (R,); if noise is
            correlated, also `last_obs` and `last_action`.
        share: Share (K,) of the last noise that each task keeps; None if noise is white.
    """
    own_mean, mean, log_std = distribution(policy, rows, share)
    log_ratio = log_prob(rows.action, mean, log_std) - rows.log_prob
    ratio = torch.exp(log_ratio)
    clipped = ratio.clamp(1.0 - cfg.clip, 1.0 + cfg.clip)
    surrogate = torch.maximum(-rows.advantage * ratio, -rows.advantage * clipped)
    excess = (own_mean.abs() - cfg.bounds).clamp_min(0.0).square().sum(dim=-1)
    loss = surrogate - entropy_coef[rows.task] * entropy(log_std) + cfg.bounds_coef * excess
    facts = {
        "kl": kl_divergence(rows.mean, rows.log_std, mean.detach(), log_std.detach()),
        "clip_fraction": ((ratio.detach() - 1.0).abs() > cfg.clip).float(),
    }
    return Surrogate(loss, log_ratio, facts)


def divergence(log_ratio: Tensor) -> Tensor:
    """Estimate KL(old policy | new policy) from actions of the old policy; never negative (Schulman 2020, "k3")."""
    return log_ratio.exp() - 1.0 - log_ratio
