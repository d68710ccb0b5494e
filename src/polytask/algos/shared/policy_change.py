"""How far an iteration's updates move a policy from the one that acted, and the learning rate that limits this."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from polytask.algos.shared.learner import Learner

FACTS = ("kl", "clip_fraction")  # what the loss tells about each row
FACTOR = 1.5  # of one change of the learning rate, as in rl_games and rsl_rl


class AdaptiveRate(NamedTuple):
    """The divergence to aim at, and the bounds of the learning rate."""

    target_kl: float
    lowest: float
    highest: float
    first: float | None = None  # the rate at the start; None: that of the optimizer


class PolicyChange:
    """Averages the facts of the policy's loss over the minibatches, and adapts the learning rate after each epoch.

    A loss is computed before the optimizer step. So the facts of a minibatch tell how far the earlier steps of the
    iteration have moved the policy. All tasks have the same weight. With several ranks, the facts are those of all
    rows, so every rank finds the same rate. Everything stays on the device, and a captured update may call `add`.
    """

    def __init__(self, learner: Learner, adaptive: AdaptiveRate | None = None) -> None:
        """Watch the learner of a policy whose loss tells the `FACTS`; without `adaptive`, its rate is not changed."""
        self._learner, self._adaptive = learner, adaptive
        rate: Tensor = learner.optimizer.param_groups[0]["lr"]
        first = None if adaptive is None else adaptive.first
        # The optimizer's own tensor is another one after a checkpoint is loaded.
        self._rate = rate.clone() if first is None else torch.full_like(rate, first)
        self._epoch = torch.zeros(len(FACTS), device=rate.device)  # sums over the minibatches of this epoch
        self._last = torch.zeros_like(self._epoch)  # means of the last epoch
        self._total = torch.zeros_like(self._epoch)  # sums of the means of the iteration's epochs
        self._task_kl = torch.zeros_like(learner.backward.method.last_losses)  # (K,) sums over the iteration's updates

    def start(self) -> None:
        """Begin the epochs of an iteration."""
        for sums in (self._total, self._epoch, self._task_kl):
            sums.zero_()
        self._pass_on_rate()

    @torch.no_grad()
    def add(self) -> None:
        """Add the facts of the learner's last update."""
        facts = self._learner.backward.facts
        # A task without a finite loss is left out of the update. It must not hide the others here either.
        self._epoch += torch.stack([facts[name] for name in FACTS]).nanmean(dim=1)
        self._task_kl += facts["kl"].nan_to_num(0.0)

    @torch.no_grad()
    def end_epoch(self, updates: int) -> None:
        """Average over the epoch's updates; lower the rate if the policy moved too far, raise it if it hardly moved."""
        torch.div(self._epoch, updates, out=self._last)
        self._total += self._last
        self._epoch.zero_()
        if self._adaptive is None:
            return
        target, lowest, highest, _ = self._adaptive
        kl = self._last[0]
        factor = torch.ones_like(kl)
        factor.masked_fill_(kl > 2.0 * target, 1.0 / FACTOR).masked_fill_(kl < 0.5 * target, FACTOR)
        self._rate.mul_(factor).clamp_(lowest, highest)
        self._pass_on_rate()

    def _pass_on_rate(self) -> None:
        if self._adaptive is not None:
            for group in self._learner.optimizer.param_groups:
                group["lr"].copy_(self._rate)

    def metrics(self, epochs: int, updates: int, tasks: tuple[str, ...]) -> dict[str, Tensor]:
        """Return the means () over all minibatches of the iteration, the last epoch's divergence, and the rate.

        Args:
            epochs: Number of epochs since `start`.
            updates: Number of updates since `start`.
            tasks: Names of the tasks, whose divergences are returned too.
        """
        kl, clip_fraction = (self._total / epochs).unbind()
        task_kl = (self._task_kl / updates).unbind()
        return {
            "policy/lr": self._learner.optimizer.param_groups[0]["lr"].clone(),
            "policy/mean_kl": kl,
            "policy/last_epoch_kl": self._last[0].clone(),
            "policy/mean_clip_fraction": clip_fraction,
            **{f"per_task/{task}/kl": value for task, value in zip(tasks, task_kl, strict=True)},
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the learning rate, if it is adapted."""
        return {} if self._adaptive is None else {"rate": self._rate.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the rate; a run that was saved with another schedule starts with the rate of its settings."""
        self._rate.copy_(state.get("rate", self._rate))
