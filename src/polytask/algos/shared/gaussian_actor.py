"""What PPO and GRPO share: settings, a Gaussian policy that explores, and the clipped surrogate that it learns from."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.algos.shared.context import AlgoContext
from polytask.algos.shared.gaussian import GaussianPolicy, StdRange, entropy, log_prob
from polytask.algos.shared.learner import Learner, adam, autocast
from polytask.algos.shared.minibatches import MinibatchRows
from polytask.algos.shared.normalize import TaskNormalizer
from polytask.algos.shared.rollout import task_index
from polytask.cuda_graph import Graphed
from polytask.grads import Backward, GradMethod
from polytask.grads.backward import Loss, Net
from polytask.settings import setting


@dataclass
class SurrogateConfig:
    """Settings of the policy and its updates; the defaults are MTBench's where it has the setting."""

    epochs: int = setting(5, "passes over an iteration's rows")
    minibatch: int = setting(
        32768, "rows per update, rounded so that minibatches are equal and give every task as many"
    )
    gamma: float = setting(0.99, "discount per step")
    clip: float = setting(
        0.2, "bound on the change of the probability ratio and, in normalized units, of the value if there is one"
    )
    entropy_coef: float = setting(0.005, "reward for the policy's entropy")
    bounds_coef: float = setting(1e-4, "penalty on the square of a mean's excess over `bounds`")
    bounds: float = setting(
        1.1, "magnitude of an action's mean that is free; beyond it clipping by the environment hides the gradient"
    )
    lr: float = setting(5e-4, "Adam's learning rate")
    schedule: str = setting("constant", "learning rate over the run: constant, or linear to zero at its last frame")
    max_grad_norm: float = setting(1.0, "bound on the gradient's norm, of each network separately")
    task_std: bool = setting(True, "one standard deviation per task; else one for all tasks")
    initial_std: float = setting(1.0, "standard deviation of the first policy; actions lie in [-1, 1]")
    min_std: float = setting(
        0.02, "lower bound of the standard deviation, where log-densities become too steep to learn from"
    )
    max_std: float = setting(
        2.0, "upper bound; without one the entropy reward inflates the noise of a task that earns nothing"
    )
    obs_clip: float = setting(10.0, "bound on normalized observations, against entries that were constant so far")
    bf16: bool = setting(False, "run the networks in bfloat16; parameters, losses and targets stay float32")


class GaussianActor:
    """A Gaussian policy that sees raw observations through a running normalizer and acts in all worlds at once."""

    def __init__(self, cfg: SurrogateConfig, context: AlgoContext, generator: torch.Generator) -> None:
        """Build the policy, which draws its noise from the generator."""
        spec = context.spec
        self.cfg, self.device, self.generator = cfg, context.device, generator
        std = StdRange(cfg.initial_std, cfg.min_std, cfg.max_std)
        net = context.actor_net(spec.action_dim)
        self.policy = GaussianPolicy(net, spec.num_tasks, spec.action_dim, cfg.task_std, std).to(self.device)
        self.obs_norm = TaskNormalizer(spec.num_tasks, spec.obs_dim, clip=cfg.obs_clip).to(self.device)
        self.task = task_index(spec, self.device)  # (N,)
        self._obs = torch.zeros(spec.num_envs, spec.obs_dim, device=self.device)
        self.capture()

    def capture(self) -> None:
        """Forget a captured graph; the next calls of `explore` make another."""
        self._sample = Graphed(self._sample_actions, self.device, self.generator)

    def learner(self, method: GradMethod, loss: Loss) -> Learner:
        """Put the policy to learning from a loss per row."""
        backward = Backward(method, self.policy, loss, torch.bfloat16 if self.cfg.bf16 else None)
        return Learner(backward, adam(self.policy, self.cfg.lr, self.device), self.cfg.max_grad_norm)

    def at(self, obs: Tensor, task: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log standard deviation (B, A) at raw observations (B, O)."""
        with autocast(self.device, self.cfg.bf16):
            mean, log_std = self.policy(self.obs_norm.normalize(obs, task), task)
        return mean, log_std

    @torch.no_grad()
    def act(self, obs: Tensor, task: Tensor, *, explore: bool) -> Tensor:
        """Choose actions (N, A) in [-1, 1]: the policy's mean, or a sample if exploring."""
        mean, log_std = self.at(obs, task)
        return (self._perturb(mean, log_std) if explore else mean).clamp(-1.0, 1.0)

    def explore(self, obs: Tensor) -> Tensor:
        """Sample actions (N, A) for all worlds, as drawn, by a captured graph where there is one."""
        self._obs.copy_(obs)
        return self._sample()

    @torch.no_grad()
    def _sample_actions(self) -> Tensor:
        return self._perturb(*self.at(self._obs, self.task))  # (N, A)

    def _perturb(self, mean: Tensor, log_std: Tensor) -> Tensor:
        noise = torch.randn(mean.shape, generator=self.generator, device=self.device)
        return mean + log_std.exp() * noise

    @torch.no_grad()
    def metrics(self, rows: MinibatchRows) -> dict[str, Tensor]:
        """Describe the policy, and how far it is from the one that chose the actions of these rows."""
        with autocast(self.device, self.cfg.bf16):
            mean, log_std = self.policy(rows.obs, rows.task)
        log_ratio = log_prob(rows.action, mean, log_std) - rows.log_prob
        return {
            "policy/entropy": entropy(log_std).mean(),
            "policy/std": log_std.exp().mean(),
            "policy/kl": divergence(log_ratio).mean(),
            "policy/clip_fraction": ((log_ratio.exp() - 1.0).abs() > self.cfg.clip).float().mean(),
        }


def surrogate_loss(cfg: SurrogateConfig, policy: Net, rows: MinibatchRows) -> tuple[Tensor, Tensor]:
    """Return each row's loss (R,) and the logarithm of its probability ratio, new policy to old (R,).

    The loss is the clipped surrogate, less entropy, plus the penalty on means out of bounds.

    Args:
        cfg: Settings.
        policy: Stands for the policy: (obs, task) to mean and log standard deviation (R, A).
        rows: Normalized `obs` (R, O), `task` (R,), `action` (R, A) as drawn, its `log_prob` (R,) under the policy that
            drew it, and its `advantage` (R,).
    """
    mean, log_std = policy(rows.obs, rows.task)
    log_ratio = log_prob(rows.action, mean, log_std) - rows.log_prob
    ratio = torch.exp(log_ratio)
    clipped = ratio.clamp(1.0 - cfg.clip, 1.0 + cfg.clip)
    surrogate = torch.maximum(-rows.advantage * ratio, -rows.advantage * clipped)
    excess = (mean.abs() - cfg.bounds).clamp_min(0.0).square().sum(dim=-1)
    return surrogate - cfg.entropy_coef * entropy(log_std) + cfg.bounds_coef * excess, log_ratio


def divergence(log_ratio: Tensor) -> Tensor:
    """Estimate KL(old policy | new policy) from actions of the old one, never below zero (Schulman 2020, "k3")."""
    return log_ratio.exp() - 1.0 - log_ratio
