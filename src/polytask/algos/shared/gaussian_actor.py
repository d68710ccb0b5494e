"""A Gaussian policy that explores, as PPO and GRPO train it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from polytask.algos.shared.borrowing import Borrowing
from polytask.algos.shared.context import AlgoContext
from polytask.algos.shared.correlated_noise import CorrelatedNoise
from polytask.algos.shared.gaussian import GaussianPolicy, StdRange, entropy, kl_divergence, log_prob
from polytask.algos.shared.learner import Learner, adam, autocast
from polytask.algos.shared.novelty import Novelty
from polytask.algos.shared.on_policy import OnPolicyLoop, Rows
from polytask.algos.shared.policy_change import AdaptiveRate, PolicyChange
from polytask.algos.shared.recent_success import RecentSuccess
from polytask.algos.shared.rollout import Choice
from polytask.algos.shared.success_memory import SuccessMemory
from polytask.algos.shared.surrogate import Surrogate, SurrogateConfig, distribution, surrogate_loss
from polytask.cuda_graph import fused
from polytask.errors import UserError
from polytask.grads import Backward, GradMethod
from polytask.grads.backward import Loss, Net
from polytask.types import EnvSpec


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
        self._acting_task = loop.own_task.clone()  # (n,) as which the policy acts in the worlds of this rank
        is_correlated = cfg.search_correlation > 0
        self.noise = CorrelatedNoise(self._acting_task, spec.num_tasks, spec.action_dim) if is_correlated else None
        self.imitation_coef = torch.zeros_like(self.entropy_coef)
        self.success_memory = self._success_memory(spec)
        # What each row imitates: observation (T * N, O) and action (T * N, A), without width if nothing is imitated.
        widths = (0, 0) if self.success_memory is None else (spec.obs_dim, spec.action_dim)
        self._past = tuple(torch.zeros(loop.frames_per_iteration, width, device=self.device) for width in widths)
        self.mean_bonus = torch.zeros((), device=self.device)
        self.pays_bonus = cfg.novelty_coef > 0 or cfg.success_coef > 0
        self.bounds_noise = any(std is not None for std in (cfg.final_std, cfg.search_std, cfg.search_correlation_std))
        explores = self.bounds_noise or cfg.search_entropy_coef is not None or self.pays_bonus or is_correlated
        counts_success = explores or cfg.imitation_coef > 0 or cfg.solved_weight < 1
        self.borrowing = Borrowing(loop.task, spec.envs_per_task, cfg.borrow_share) if cfg.borrow_share > 0 else None
        always = None if self.borrowing is None else self.borrowing.always
        self.success = RecentSuccess(loop.task, spec.num_tasks, always) if counts_success else None
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

    def _success_memory(self, spec: EnvSpec) -> SuccessMemory | None:
        if self.cfg.imitation_coef == 0:
            return None
        return SuccessMemory(spec, self.loop.task, len(self.loop.rollout.reward), self.cfg.imitation_steps)

    def imitate(self, task: Tensor, obs: Tensor, action: Tensor) -> None:
        """Remember demonstrated steps (M, ...) as if they were own successes."""
        if self.success_memory is None:
            raise UserError("demos are imitated with the weight algo.imitation_coef, which is 0; try 1")
        self.success_memory.fill(task, obs, action)

    def columns(self) -> tuple[Tensor, ...]:
        """Return the columns of the rollout that the loss needs, from `log_prob` to `past_action`."""
        return *self.loop.gaussian_columns(), *self.loop.last_columns(self.noise is not None), *self._past

    def learner(self, method: GradMethod, loss: Loss) -> Learner:
        """Build a learner that trains the policy on a loss per row."""
        autocast = torch.bfloat16 if self.cfg.bf16 else None
        ranks = self.worlds.ranks
        backward = Backward(method, self.policy, loss, autocast, is_fused=self.cfg.compile, ranks=ranks)
        return Learner(backward, adam(self.policy, self.cfg.lr, self.device), self.cfg.max_grad_norm)

    @torch.no_grad()
    def begin(self) -> None:
        """Before a rollout, choose as which tasks the policy acts, and let correlated noise go on.

        It goes on from how far the last actions are from the means of today.
        """
        if self.borrowing is not None and self.success is not None:
            self.borrowing.draw(self.success.rate(), self.generator)
            self._acting_task.copy_(self.worlds.own(self.borrowing.task))
        if self.noise is not None:
            obs, action = self.loop.own.end
            self.noise.continue_from(action - self.at(obs, self._acting_task)[0])

    def restart(self) -> None:
        """Forget the episodes that go on, because all worlds were reset between two rollouts."""
        for part in (self.success, self.novelty, self.success_memory):
            if part is not None:
                part.restart()

    def reward_search(self) -> None:
        """After a rollout, pay tasks that fail for new places of hand and objects, and for steps that succeed."""
        if not self.pays_bonus or self.success is None:
            return
        rollout = self.loop.rollout
        bonus = self.cfg.success_coef * rollout.success.float()  # (T, N)
        if self.novelty is not None and self.loop.frames >= self.cfg.novelty_start:
            bonus += self.cfg.novelty_coef * self.novelty.bonus(rollout.obs, rollout.done, self.counted)
        bonus *= (1 - self.success.rate())[self.loop.task]
        rollout.reward += bonus
        self.mean_bonus.copy_(bonus.mean())

    def remember(self) -> None:
        """After a rollout, remember the steps that led to success, and draw what each row imitates."""
        if self.success_memory is None:
            return
        self.success_memory.add(self.loop.rollout)
        task = self.loop.task.repeat(len(self.loop.rollout.reward))
        for column, drawn in zip(self._past, self.success_memory.draw(task, self.generator), strict=True):
            column.copy_(drawn)

    def anneal(self) -> None:
        """Before the updates of an iteration, set the weights of each task's loss, of its entropy and of imitation."""
        cfg = self.cfg
        final = cfg.entropy_coef if cfg.final_entropy_coef is None else cfg.final_entropy_coef
        coef = cfg.entropy_coef + min(1.0, self.loop.progress) * (final - cfg.entropy_coef)
        self.entropy_coef.fill_(coef)
        if self.success is None:
            return
        success = self.success.rate()
        if self.success_memory is not None:
            self.imitation_coef.copy_(
                cfg.imitation_coef * (1 - success) * self.success_memory.count / cfg.imitation_steps
            )
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
        if cfg.search_std is None or cfg.search_period is None or self.loop.frames < cfg.search_std_start:
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
    def counted(self) -> Tensor | None:
        """Worlds (N,) in which the policy acts as their own task in this iteration, bool; None if it always does."""
        return None if self.borrowing is None else self.borrowing.counted

    @property
    def share(self) -> Tensor | None:
        """The share (K,) of the last noise that each task keeps; None if noise is white."""
        return None if self.noise is None else self.noise.share

    def surrogate(self, policy: Net, rows: Rows) -> Surrogate:
        """Return the surrogate of rows (R, ...), with the entropy and the noise of today."""
        found = surrogate_loss(self.cfg, self.entropy_coef, policy, rows, self.share)
        if self.success_memory is None:
            return found
        error = (policy(rows.past_obs, rows.task)[0] - rows.past_action).square().sum(dim=-1)
        return Surrogate(found.loss + self.imitation_coef[rows.task] * error, found.log_ratio, found.facts)

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

    def sample(self, obs: Tensor, _: Tensor) -> Choice:
        """Sample actions (n, A) for the worlds of this rank, without clipping them, as the tasks that `begin` chose."""
        return self._fused_choose(obs, self._acting_task, self.worlds.draw(self._noise))

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
            own_mean, mean, log_std = distribution(self.policy, rows, self.share)
        log_ratio = log_prob(rows.action, mean, log_std) - rows.log_prob
        std = self.policy.log_std.exp().expand(self.policy.num_tasks, -1)[rows.task]  # (R, A) of the noise over time
        found = {
            "policy/entropy": entropy(log_std).mean(),
            "policy/std": self.policy.log_std.exp().mean(),
            "policy/kl": kl_divergence(rows.mean, rows.log_std, mean, log_std).mean(),
            "policy/clip_fraction": ((log_ratio.exp() - 1.0).abs() > self.cfg.clip).float().mean(),
            "policy/saturated": (own_mean.abs() - 1.0 > 2.0 * std).float().mean(),
        }
        if self.pays_bonus:
            found["rollout/bonus"] = self.mean_bonus.clone()
        if self.borrowing is not None:
            found["rollout/borrowed"] = (~self.borrowing.counted).float().mean()
        if self.success is not None:
            found |= self._per_task("std", self.policy.log_std.exp().mean(dim=-1).expand(self.policy.num_tasks))
        if self.success_memory is not None:
            found |= self._per_task("imitation", self.imitation_coef.clone())
        return found

    def _per_task(self, name: str, values: Tensor) -> dict[str, Tensor]:
        """Return a metric of each task, given its values (K,)."""
        return {f"per_task/{task}/{name}": value for task, value in zip(self.loop.spec.tasks, values, strict=True)}

    def state_dict(self) -> dict[str, Any]:
        """Return the recent success of the tasks, the places of objects and the noise, if something depends on them."""
        found = {} if self.success is None else self.success.state_dict()
        parts = {"novelty": self.novelty, "noise": self.noise, "success_memory": self.success_memory}
        found |= {name: part.state_dict() for name, part in parts.items() if part is not None}
        if self.noise is not None:
            found["last_step"] = {name: each.clone() for name, each in self.loop.rollout.end._asdict().items()}
        return found

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        if self.success is not None:
            self.success.load_state_dict(state)
            self._bound_noise(self.success)
        for name, part in (("novelty", self.novelty), ("noise", self.noise), ("success_memory", self.success_memory)):
            if part is not None and name in state:  # a run may be continued with settings that it did not have
                part.load_state_dict(state[name])
        self.policy.after_load()  # the bounds may be new, too
        if "last_step" in state:
            loop = self.loop
            for everyone, own, saved in zip(loop.rollout.end, loop.own.end, state["last_step"].values(), strict=True):
                everyone.copy_(saved)
                own.copy_(self.worlds.own(everyone))
