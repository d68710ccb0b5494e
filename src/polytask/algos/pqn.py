"""Train Q-values of a few action levels per actuator from parallel worlds, without replay buffer or target network.

Gallici et al., "Simplifying Deep Temporal Difference Learning" (PQN), 2024 (arXiv 2407.04811): layer normalization
stabilizes Q(lambda) on new data. Seyde et al., "Solving Continuous Control via Q-learning", ICLR 2023 (arXiv
2210.12566): an actuator is full on in either direction, or off ("bang-off-bang"). Each actuator has its own values, and
their mean is the value of the joint action. So the best joint action takes the best level of each actuator. MTBench
(Joshi et al., RLC 2025, arXiv 2507.23172) combines the two. One iteration collects T steps of all worlds, computes the
targets of Peng's Q(lambda), and runs a few epochs of task-major minibatches. Each minibatch gives the gradient method
one loss per task.

Differences from MTBench's PQN: Actions depend on the current observation, not on the first of a rollout. Returns stop
at the end of an episode, and a truncated episode bootstraps from its last observation. Epsilon counts every frame.
Minibatches hold the same number of rows of every task. Observations are normalized and rewards are scaled per task.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import RAdam

from polytask import grads
from polytask.algos.shared.actor_layout import ActorLayout, levels
from polytask.algos.shared.context import AlgoContext
from polytask.algos.shared.learner import Learner, autocast
from polytask.algos.shared.on_policy import OnPolicyConfig, OnPolicyLoop, chunks
from polytask.algos.shared.returns import peng_q_lambda
from polytask.algos.shared.reward_scale import RewardNormalizer
from polytask.algos.shared.rollout import Choice
from polytask.cuda_graph import Graphed, fused
from polytask.grads import Backward
from polytask.grads.backward import Net
from polytask.settings import setting, with_default
from polytask.types import VecEnv


@dataclass
class PQNConfig(OnPolicyConfig):
    """Settings of PQN; the defaults are MTBench's where it has the setting."""

    name: str = "pqn"
    horizon: int = setting(16, "steps T of every world per iteration", within=(1, 10**6))
    epochs: int = with_default(OnPolicyConfig, "epochs", 8)
    minibatches: int = setting(4, "updates per pass", within=(1, 10**6))
    bins: int = setting(3, "levels of each actuator, evenly spaced from -1 to 1", within=(2, 1_000))
    gamma: float = setting(0.99, "discount per step", at_least=0.0, below=1.0)
    lam: float = setting(0.5, "weight of longer returns in the targets", within=(0.0, 1.0))
    epsilon_start: float = setting(1.0, "probability of a random action at the first frame", within=(0.0, 1.0))
    epsilon_end: float = setting(
        0.005, "probability of a random action after the schedule has ended", within=(0.0, 1.0)
    )
    epsilon_fraction: float = setting(
        0.1, "share of the run's frames over which this probability falls linearly", within=(0.0, 1.0)
    )
    lr: float = setting(3e-4, "learning rate of RAdam", at_least=0.0)
    schedule: str = with_default(OnPolicyConfig, "schedule", "linear")
    max_grad_norm: float = setting(10.0, "bound on the norm of the gradient", above=0.0, at_most=math.inf)
    return_bound: float = setting(
        10.0,
        "bound on values after scaling; rewards are scaled per task by the standard deviation of discounted returns",
        above=0.0,
    )
    bf16: bool = setting(False, "run the network in bfloat16; parameters, losses and targets stay float32")

    def actor_layout(self) -> ActorLayout:
        """Return where the policy is: the values of all levels."""
        return ActorLayout("best_levels", outputs=self.bins, learner="critic", prefix="")


class PQNRows(NamedTuple):
    """The data that the loss needs: all rows of a rollout (T * N, ...), or a minibatch (K, b, ...)."""

    obs: Tensor  # (..., O)
    task: Tensor  # (...)
    action: Tensor  # (..., A) levels in [-1, 1]
    target: Tensor  # (...) return in scaled rewards


class PQN:
    """Parallelized Q-network; `types.Algo` documents the public methods."""

    def __init__(self, cfg: PQNConfig, context: AlgoContext) -> None:
        """Build the network, its optimizer and the buffers."""
        self.cfg, self.spec, self.device = cfg, context.spec, context.device
        self.loop = OnPolicyLoop(cfg, context, cfg.horizon, cfg.minibatches)
        self.frames_per_iteration = self.loop.frames_per_iteration
        self.rollout, self.obs_norm, self.task = self.loop.rollout, self.loop.obs_norm, self.loop.task
        self.generator = self.loop.generator
        self._build_learner(context)
        # Every tensor that a captured graph reads or writes is allocated once.
        self.rows = PQNRows(*self.loop.columns(), torch.zeros(self.frames_per_iteration, device=self.device))
        self._own_columns = self.loop.own_columns()
        self._epsilon = torch.ones((), device=self.device)
        self.loop.start(self.rows, self.learners, self._sample)
        self._fused_values_at = fused(self._values_at, self.device, is_wanted=cfg.compile)
        self._fused_scale_update = fused(self.reward_norm.update, self.device, is_wanted=cfg.compile)
        self._compute_targets = Graphed(self._targets, self.device)

    def _build_learner(self, context: AlgoContext) -> None:
        cfg, spec = self.cfg, self.spec
        self.net = context.value_net(spec.action_dim * cfg.bins)
        self.reward_norm = RewardNormalizer(spec, self.task, cfg.gamma, cfg.return_bound)
        # There is only one network, so the gradient method acts on it and `apply_to` is ignored.
        method = grads.build(context.grads, spec.num_tasks, self.device, self.generator)
        autocast = torch.bfloat16 if cfg.bf16 else None
        backward = Backward(method, self.net, self._loss, autocast, is_fused=cfg.compile, ranks=context.ranks)
        self.learners = {"critic": Learner(backward, radam(self.net, cfg.lr, self.device), cfg.max_grad_norm)}

    # Act

    @torch.no_grad()
    def act(self, obs: Tensor, task: Tensor, *, explore: bool) -> Tensor:
        """Choose actions (N, A): the best levels or, if `explore` is true, random ones with probability epsilon."""
        choice = self._values_at(obs, task).argmax(dim=-1)  # (N, A)
        if explore:
            choice = self._perturb(choice, self._random_choice(len(choice)), self._coin(len(choice)))
        return levels(choice, self.cfg.bins)

    def _sample(self, obs: Tensor, task: Tensor) -> Choice:
        """Choose actions (n, A) like `act`, for the worlds of this rank."""
        choice, draw = self._fused_values_at(obs, task).argmax(dim=-1), self.loop.worlds.draw
        return Choice(levels(self._perturb(choice, draw(self._random_choice), draw(self._coin)), self.cfg.bins))

    def _perturb(self, choice: Tensor, anything: Tensor, coin: Tensor) -> Tensor:
        """Replace the whole action of a world by a random one, with probability epsilon."""
        return torch.where(coin < self._epsilon, anything, choice)

    def _random_choice(self, count: int) -> Tensor:
        shape = (count, self.spec.action_dim)
        return torch.randint(self.cfg.bins, shape, generator=self.generator, device=self.device)

    def _coin(self, count: int) -> Tensor:
        return torch.rand(count, 1, generator=self.generator, device=self.device)

    def _values_at(self, obs: Tensor, task: Tensor) -> Tensor:
        """Return the values (B, A, bins) of every level at raw observations (B, O)."""
        with autocast(self.device, self.cfg.bf16):
            values: Tensor = self.net(self.obs_norm.normalize(obs, task), task)
        return values.float().unflatten(-1, (-1, self.cfg.bins))

    # Collect

    def iterate(self, env: VecEnv) -> dict[str, Tensor]:
        """Collect T steps of every world, learn from them, and return metrics."""
        self._epsilon.fill_(epsilon_at(self.cfg, self.loop.progress))
        self.loop.collect(env)
        self._compute_targets()
        metrics = {
            **self.loop.learn(),
            "policy/epsilon": self._epsilon.clone(),
            "value/target": self.rows.target.mean(),
        }
        self.loop.finish()
        return metrics

    # Targets

    @torch.no_grad()
    def _targets(self) -> None:
        """Compute the targets of all rows, in chunks of the minibatch size."""
        cfg, rows, rollout = self.cfg, self.rows, self.rollout
        _, task, next_obs = self._own_columns
        next_values = torch.empty(1, len(task), device=self.device)
        for part in chunks(len(task), -(-len(rows.task) // cfg.minibatches)):
            next_values[0, part] = best(self._fused_values_at(next_obs[part], task[part]))
        next_value = self.loop.gather(next_values)[0]  # (T, N)
        for reward, done in zip(rollout.reward, rollout.done, strict=True):
            self._fused_scale_update(reward, done)
        reward = rollout.reward / self.reward_norm.scale()[self.task]
        target = peng_q_lambda(reward, next_value, rollout.terminated, rollout.truncated, cfg.gamma, cfg.lam)
        rows.target.copy_(target.flatten())

    # Loss

    def _loss(self, net: Net, rows: PQNRows) -> Tensor:
        """Return every row's squared error (R,) of the value of its action."""
        values = net(rows.obs, rows.task).float().unflatten(-1, (-1, self.cfg.bins))  # (R, A, bins)
        return (chosen(values, rows.action) - rows.target).square()

    # Save

    def networks(self) -> dict[str, nn.Module]:
        """Return, by name, the networks and running statistics from which a new run can start."""
        return {**self.loop.networks(), "reward_norm": self.reward_norm}

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume the run: tensors and plain values."""
        return {**self.loop.state_dict(), "reward_norm": self.reward_norm.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned, possibly on another device."""
        self.loop.load_state_dict(state)
        self.reward_norm.load_state_dict(state["reward_norm"])
        self._epsilon.fill_(epsilon_at(self.cfg, self.loop.progress))


def best(values: Tensor) -> Tensor:
    """Return the value (...) of the best joint action: the mean over actuators of the maximum of (..., A, bins)."""
    return values.max(dim=-1).values.mean(dim=-1)


def chosen(values: Tensor, action: Tensor) -> Tensor:
    """Return the value (...) of actions (..., A): the mean over actuators of the chosen entries of (..., A, bins)."""
    choice = ((action + 1.0) * (0.5 * (values.shape[-1] - 1))).round().long()
    return values.gather(-1, choice.unsqueeze(-1)).squeeze(-1).mean(dim=-1)


def epsilon_at(cfg: PQNConfig, progress: float) -> float:
    """Return the probability of a random action after a fraction `progress` of the run's frames."""
    share = min(1.0, progress / cfg.epsilon_fraction) if cfg.epsilon_fraction > 0 else 1.0
    return cfg.epsilon_start + share * (cfg.epsilon_end - cfg.epsilon_start)


def radam(net: nn.Module, lr: float, device: torch.device) -> RAdam:
    """Build a RAdam optimizer whose learning rate is a tensor, so that its step can be captured."""
    return RAdam(net.parameters(), lr=torch.tensor(lr, device=device), capturable=device.type == "cuda")
