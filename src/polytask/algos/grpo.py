"""Train a Gaussian policy without a critic, by comparing every episode with the other episodes of the same task.

Shao et al., "DeepSeekMath", 2024 (arXiv 2402.03300) introduce group-relative advantages. MTBench (Joshi et al., RLC
2025, arXiv 2507.23172) applies them to many worlds of each task. One iteration collects one whole episode in every
world, standardizes the rewards to go over the worlds of each task, and runs PPO's clipped updates.

Differences from MTBench's GRPO: No constant is added to the reward of the last step. Minibatches are shuffled in every
epoch and hold the same number of rows of every task. Each task has its own standard deviation. The mean can be taken
per time step (`baseline=time`), which removes the trend that rewards to go have over an episode. The score can be the
return of the whole episode, as in the paper (`advantage=episodic`). A penalty on the divergence from the policy that
collected the episodes can be added (`kl_coef`). Without the division by the standard deviation (`standardize=false`) it
is Dr. GRPO (Liu et al. 2025, arXiv 2503.20783): tasks then weigh by the spread of their returns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from polytask import grads
from polytask.algos.shared.borrowing import lent_worlds
from polytask.algos.shared.context import AlgoContext
from polytask.algos.shared.gaussian_actor import GaussianActor
from polytask.algos.shared.normalize import task_moments
from polytask.algos.shared.on_policy import OnPolicyLoop
from polytask.algos.shared.returns import discounted_sum, group_advantage
from polytask.algos.shared.rollout import num_minibatches
from polytask.algos.shared.surrogate import SurrogateConfig, divergence
from polytask.cuda_graph import Graphed
from polytask.errors import UserError
from polytask.grads.backward import Facts, Net
from polytask.settings import setting
from polytask.types import EnvSpec, VecEnv


@dataclass
class GRPOConfig(SurrogateConfig):
    """Settings of GRPO; the defaults are MTBench's where it has the setting."""

    name: str = "grpo"
    horizon: int = setting(
        0, "steps T of every world per iteration: the episode length, or 0, which means the same", within=(0, 10**6)
    )
    needs_whole_episodes: ClassVar[bool] = True
    most_rows: ClassVar[int] = 38400

    minibatch: int | None = setting(
        None,
        "rows per update, the same number for every task (default: a quarter of an iteration's rows, at most 38400)",
        within=(1, 10**9),
    )
    advantage: str = setting(
        "reward_to_go",
        "score of an action: reward_to_go (discounted by gamma) or episodic (sum of the episode's rewards)",
        choices=("reward_to_go", "episodic"),
    )
    baseline: str = setting(
        "task",
        "mean that scores are compared with: task (over all steps) or time (over the worlds at the same step)",
        choices=("task", "time"),
    )
    standardize: bool = setting(
        True, "divide differences from the mean by the task's standard deviation; false: Dr. GRPO, which does not"
    )
    kl_coef: float = setting(
        0.0, "penalty on the divergence from the policy that collected the episodes of the iteration", at_least=0.0
    )


class GRPORows(NamedTuple):
    """The data that the loss needs: all rows of a rollout (T * N, ...), or a minibatch (K, b, ...)."""

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
    advantage: Tensor  # (...) relative to the task's group
    weight: Tensor  # (...) zero after an early end and in worlds that borrow; the others of a task have mean one


class GRPO:
    """Group-relative policy optimization; `types.Algo` documents the public methods."""

    def __init__(self, cfg: GRPOConfig, context: AlgoContext) -> None:
        """Build the policy, its optimizer and the buffers."""
        check(cfg, context.spec)
        self.cfg, self.spec, self.device = cfg, context.spec, context.device
        horizon = self.spec.episode_length
        rows = horizon * self.spec.num_envs
        self.loop = OnPolicyLoop(cfg, context, horizon, num_minibatches(rows, cfg.rows_per_update(rows)))
        self.frames_per_iteration = self.loop.frames_per_iteration
        self.rollout, self.task = self.loop.rollout, self.loop.task
        self.actor = GaussianActor(cfg, context, self.loop)
        self.policy = self.actor.policy
        # The policy is the only network, so the gradient method acts on it and `apply_to` is ignored.
        method = grads.build(context.grads, self.spec.num_tasks, self.device, self.loop.generator)
        self.learners = {"actor": self.actor.learner(method, self._loss)}
        # Every tensor that a captured graph reads or writes is allocated once.
        empty = (torch.zeros(self.frames_per_iteration, device=self.device) for _ in range(2))
        self.rows = GRPORows(*self.loop.columns(), *self.actor.columns(), *empty)
        self._in_step = torch.zeros((), dtype=torch.bool, device=self.device)  # all worlds start an episode
        self._is_checked = False
        change = self.actor.change(self.learners["actor"])
        self.loop.start(self.rows, self.learners, self.actor.sample, change, self.actor.counted)
        self._compute_targets = Graphed(self._targets, self.device)

    # Act

    def act(self, obs: Tensor, task: Tensor, *, explore: bool) -> Tensor:
        """Choose actions (N, A) in [-1, 1]: the policy's mean, or a sample if `explore` is true."""
        return self.actor.act(obs, task, explore=explore)

    # Collect

    def imitate(self, task: Tensor, obs: Tensor, action: Tensor) -> None:
        """Begin with demonstrated steps (M, ...); `types.Imitates` documents it."""
        self.actor.imitate(task, obs, action)

    def iterate(self, env: VecEnv) -> dict[str, Tensor]:
        """Collect one episode in every world, learn from them, and return metrics."""
        if not self._in_step.item():  # read while no work is queued; false at first and after an early end
            env.reset()
            self.actor.restart()
        self.actor.begin()
        self.loop.collect(env)
        self.actor.reward_search()
        self._check_alignment()
        self._compute_targets()
        self.actor.remember()
        self.actor.anneal()
        metrics = {
            **self.loop.learn(),
            **self.loop.merge(self.actor.metrics(self.loop.last())),
            "rollout/counted": (self.rows.weight > 0).float().mean(),
        }
        self.loop.finish()
        self.actor.settle()
        return metrics

    def _check_alignment(self) -> None:
        """Check, after the first rollout, that episodes last exactly one rollout."""
        if self._is_checked:
            return
        rollout = self.rollout
        misaligned = int((rollout.truncated[:-1].any(dim=0) | ~rollout.done.any(dim=0)).sum())
        # Diverged simulations truncate the episodes of a few worlds early. Staggered starts truncate nearly all.
        if 2 * misaligned > self.spec.num_envs:
            raise UserError(
                f"GRPO needs whole episodes of algo.horizon={self.spec.episode_length} steps, but in {misaligned} of "
                f"{self.spec.num_envs} worlds the time limit came at another step; start all episodes together with "
                "stagger=false"
            )
        self._is_checked = True

    # Targets

    @torch.no_grad()
    def _targets(self) -> None:
        """Compute advantages and weights of all rows."""
        cfg, rows, rollout, num_tasks = self.cfg, self.rows, self.rollout, self.spec.num_tasks
        done = rollout.done
        # After an early end a world starts a second episode, which the rollout cuts off. Only the first one counts,
        # and none in a world that acts as another task.
        counted = done.cumsum(dim=0) - done.int() == 0  # (T, N)
        if self.actor.counted is not None:
            counted &= self.actor.counted
        if cfg.advantage == "episodic":
            total = (rollout.reward * counted).sum(dim=0, keepdim=True)  # (1, N)
            compared = counted[:1]  # the first row of a world counts, unless the world borrows
            advantage = group_advantage(total, compared, self.task, num_tasks, is_scaled=cfg.standardize) * counted
        else:
            score = discounted_sum(rollout.reward, done, cfg.gamma)
            advantage = group_advantage(
                score, counted, self.task, num_tasks, by_time=cfg.baseline == "time", is_scaled=cfg.standardize
            )
        moments = task_moments(counted.float().unsqueeze(-1), self.task, num_tasks, self.actor.counted)
        share = moments.mean  # (K, 1)
        rows.advantage.copy_(advantage.flatten())
        rows.weight.copy_((counted / share.squeeze(-1)[self.task]).flatten())
        self._in_step.copy_(done[-1].all())

    # Loss

    def _loss(self, policy: Net, rows: GRPORows) -> tuple[Tensor, Facts]:
        """Return every row's weighted loss (R,): the clipped surrogate with its regularizers."""
        loss, log_ratio, facts = self.actor.surrogate(policy, rows)
        if self.cfg.kl_coef > 0:
            loss = loss + self.cfg.kl_coef * divergence(log_ratio)
        return self.actor.weighted(loss * rows.weight, rows), facts

    # Save

    def networks(self) -> dict[str, nn.Module]:
        """Return, by name, the networks and running statistics from which a new run can start."""
        return self.loop.networks()

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume the run: tensors and plain values."""
        return {**self.loop.state_dict(), **self.actor.state_dict(), "in_step": self._in_step.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned, possibly on another device."""
        self.loop.load_state_dict(state)
        self.actor.load_state_dict(state)
        self._in_step.copy_(state["in_step"])


def check(cfg: GRPOConfig, spec: EnvSpec) -> None:
    """Check that the settings give whole episodes and at least two worlds per task."""
    if cfg.horizon not in (0, spec.episode_length):
        raise UserError(
            f"algo.horizon is {cfg.horizon}, but GRPO needs whole episodes, which have {spec.episode_length} steps; "
            f"set algo.horizon=0 or episode_length={cfg.horizon}, and stagger=false"
        )
    if min(count - lent_worlds(count, cfg.borrow_share) for count in spec.envs_per_task) < 2:
        besides = f" besides the algo.borrow_share={cfg.borrow_share} of them" if cfg.borrow_share > 0 else ""
        raise UserError(
            f"GRPO compares the worlds of a task; every task needs at least two{besides}, got {spec.envs_per_task}"
        )
