"""The clipped surrogate loss of a Gaussian policy, and the settings that PPO and GRPO share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from polytask.algos.shared.actor_layout import ActorLayout
from polytask.algos.shared.correlated_noise import given_last
from polytask.algos.shared.gaussian import entropy, kl_divergence, log_prob
from polytask.algos.shared.on_policy import SCHEDULES, OnPolicyConfig, Rows
from polytask.errors import UserError
from polytask.grads.backward import Facts, Net
from polytask.settings import require_order, setting

DELAYS = {  # frames of the run before something begins, and the setting that it delays
    "novelty_start": "novelty_coef",
    "search_correlation_start": "search_correlation",
    "search_std_start": "search_std",
}


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
        0,
        "frames of the run before the noise is correlated, so that easier tasks learn without it",
        within=(0, 10**15),
        is_in_frames=True,
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
        0,
        "frames of the run before novelty is paid; no place counts as visited before",
        within=(0, 10**15),
        is_in_frames=True,
    )
    success_coef: float = setting(
        0.0,
        "bonus for every step that succeeds, in the reward of a task that fails; it falls to zero with a task's recent "
        "success",
        at_least=0.0,
    )
    imitation_coef: float = setting(
        0.0,
        "weight of the squared difference from the actions that led to a task's own successes, and from those of "
        "demos=FOLDER, in the loss of a task that fails; it falls to zero with a task's recent success",
        at_least=0.0,
    )
    imitation_steps: int = setting(
        16_384,
        "number of such actions that each task remembers, the latest ones; with fewer the weight is smaller. "
        "Checkpoints contain them and their observations",
        within=(1, 10**6),
    )
    borrow_share: float = setting(
        0.0,
        "share of each task's worlds in which a task that fails may act as tasks that succeed do; only their successes "
        "are learned from, so it needs `imitation_coef`",
        within=(0.0, 0.9),
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
    search_std_start: int = setting(
        0,
        "frames of the run before this noise swings, so that easier tasks learn without it",
        within=(0, 10**15),
        is_in_frames=True,
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
        if self.borrow_share > 0 and self.imitation_coef == 0:
            raise UserError(
                f"{prefix}borrow_share finds what other tasks succeed with, to imitate it; if there are other tasks, "
                f"set {prefix}imitation_coef too, else leave it out"
            )
        if self.imitation_steps != SurrogateConfig.imitation_steps and self.imitation_coef == 0:
            raise UserError(
                f"{prefix}imitation_steps are kept to be imitated; set {prefix}imitation_coef too, or leave it out"
            )
        for start, delayed in DELAYS.items():
            if getattr(self, start) > 0 and not getattr(self, delayed):
                raise UserError(f"{prefix}{start} delays {prefix}{delayed}; set that too, or leave it out")

    def actor_layout(self) -> ActorLayout:
        """Return where the policy is: a network that gives means, which the environment clips."""
        return ActorLayout("clip")

    def rows_per_update(self, rows: int) -> int:
        """Return the size of a minibatch, given the rows of an iteration.

        Four updates per pass suit every size. A size that is chosen for a GPU would leave a small run with one.
        """
        return self.minibatch or max(1, min(self.most_rows, rows // 4))


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
