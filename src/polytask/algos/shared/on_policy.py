"""The iteration that on-policy learners share: a rollout of all worlds, then epochs of task-major minibatches.

With several ranks, each acts in its own worlds, runs the networks on its own rows of the rollout, and computes the
gradients of its part of each minibatch. Between these steps all ranks hold the rows of all worlds, in the order of a
single process. So targets, statistics and the order of the minibatches are computed by all ranks alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from polytask.algos.shared.context import AlgoContext
from polytask.algos.shared.learner import Learner, restore_generator
from polytask.algos.shared.normalize import ObsNormalizerConfig, obs_normalizer
from polytask.algos.shared.policy_change import PolicyChange
from polytask.algos.shared.rollout import Choice, Rollout, TaskMajorSampler, roll_out, task_index
from polytask.cuda_graph import Graphed, fused
from polytask.parallel.ranks import require_rows
from polytask.parallel.worlds import WorldShare
from polytask.settings import setting
from polytask.types import VecEnv

Rows = Any  # a named tuple of tensors with the same leading axes; the first are `obs` (raw observations) and `task`
Sample = Callable[[Tensor, Tensor], Choice]  # raw observations (n, O), tasks (n,) of the own worlds -> random actions

SCHEDULES = ("constant", "linear")  # of the learning rate
KINDS = {"actor": "policy", "critic": "value"}  # name of each learner's loss in the metrics


@dataclass
class OnPolicyConfig(ObsNormalizerConfig):
    """Settings that the loop reads, with the defaults of PPO and GRPO."""

    epochs: int = setting(5, "passes over an iteration's rows", within=(1, 10_000))
    lr: float = setting(5e-4, "learning rate of Adam", at_least=0.0)
    schedule: str = setting(
        "constant", "learning rate over the run: constant, or linear to zero at the last frame", choices=SCHEDULES
    )
    compile: bool = setting(
        True, "on a GPU, compile the updates into fewer kernels; takes seconds at the first start on a machine"
    )


class OnPolicyLoop:
    """Alternates rollouts with epochs of minibatches; the algorithm defines how to act, the targets and the losses.

    On a CUDA device each choice of actions and each update replays a captured graph.

    Attributes:
        generator: Source of all random numbers of the algorithm.
        task: Task of each world. (N,)
        own_task: Task of each world of this rank. (n,)
        obs_norm: Normalizes the observations.
        rollout: The last T steps of every world. With several ranks, `next_obs` is only in `own`.
        own: The last T steps of the worlds of this rank; in a single process it is `rollout`.
        worlds: The worlds of this rank.
        iteration: Number of finished iterations.
        frames: Environment steps of all worlds so far. A run may continue with another horizon, so they are counted.
    """

    def __init__(self, cfg: OnPolicyConfig, context: AlgoContext, horizon: int, minibatches: int) -> None:
        """Allocate the buffers of T = `horizon` steps; `start` adds what the algorithm builds from them.

        Args:
            cfg: Settings.
            context: Environment spec, device and the parts chosen for the learner.
            horizon: Steps of every world per iteration.
            minibatches: Updates per epoch.
        """
        spec, device = context.spec, context.device
        self.cfg, self.spec, self.device, self.total_frames = cfg, spec, device, context.total_frames
        self.generator = context.generator("algo")
        self.task = task_index(spec, device)
        self.ranks, self.worlds = context.ranks, WorldShare(context.ranks, spec.envs_per_task, device)
        own = spec if self.ranks.is_alone else replace(spec, envs_per_task=self.worlds.envs_per_task)
        self.own_task = self.task if self.ranks.is_alone else task_index(own, device)
        self.obs_norm = obs_normalizer(cfg, spec, device)
        self.own = Rollout.allocate(own, horizon, device)
        self.rollout = self.own if self.ranks.is_alone else Rollout.allocate(spec, horizon, device)
        self.iteration = self.frames = 0
        self._sampler = TaskMajorSampler(self.task, spec.num_tasks, horizon, minibatches)
        rows = self._sampler.shape[2]  # of each task in a minibatch
        require_rows(self.ranks, rows, "use larger minibatches, more worlds or a longer algo.horizon")
        self._columns = self.ranks.share(rows)  # those of this rank
        self.rows_per_task = self._columns.stop - self._columns.start
        # Inputs of the captured graphs: the observations to act on, and the rows (K, b) of a minibatch.
        self._obs = torch.zeros(own.num_envs, spec.obs_dim, device=device)
        self._index = torch.zeros(spec.num_tasks, self.rows_per_task, dtype=torch.int64, device=device)
        # Exchanges between ranks must have the same order on all, so they stay on one stream.
        self._aside = SideStream(device if self.ranks.is_alone else torch.device("cpu"))

    def columns(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the rollout's raw observations (T * N, O), tasks (T * N,) and actions (T * N, A)."""
        obs, action = self.rollout.obs.flatten(0, 1), self.rollout.action.flatten(0, 1)  # views
        return obs, self.task.repeat(len(self.rollout.obs)), action

    def gaussian_columns(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the log-densities of the rollout's actions (T * N,), and the policy's mean and log std (T * N, A)."""
        rollout = self.rollout
        return rollout.log_prob.flatten(), rollout.mean.flatten(0, 1), rollout.log_std.flatten(0, 1)  # views

    def last_columns(self, is_needed: bool) -> tuple[Tensor, Tensor]:
        """Return raw observations (T * N, O) and actions (T * N, A) of the steps before; no columns if not needed."""
        columns = (self.rollout.last_obs.flatten(0, 1), self.rollout.last_action.flatten(0, 1))  # views
        return columns if is_needed else (columns[0][:, :0], columns[1][:, :0])

    def own_columns(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return observations, tasks, and observations after the actions, of the worlds of this rank (T * n, ...)."""
        obs, next_obs = self.own.obs.flatten(0, 1), self.own.next_obs.flatten(0, 1)  # views
        return obs, self.own_task.repeat(len(self.own.obs)), next_obs

    def gather(self, own: Tensor) -> Tensor:
        """Put together what the ranks computed from their `own_columns`: (M, T * n) becomes (M, T, N)."""
        return self.worlds.gather(own.view(len(own), *self.own.reward.shape), axis=2)

    def start(
        self,
        rows: Rows,
        learners: dict[str, Learner],
        sample: Sample,
        change: PolicyChange | None = None,
        counted: Tensor | None = None,
    ) -> None:
        """Add what the iterations need.

        Args:
            rows: All rows of a rollout (T * N, ...): the `columns`, and tensors that the targets overwrite.
            learners: The learners by name, "actor" or "critic", in the order of their steps.
            sample: Chooses the actions of a rollout, for the worlds of this rank.
            change: Watches how far the updates move a Gaussian policy.
            counted: Worlds whose rows the updates use, which may change between iterations; None for all. (N,) bool
        """
        self.rows, self.learners, self._sample, self._change = rows, learners, sample, change
        self._counted = counted
        # The losses and the gradient norm of each learner, summed over the updates.
        self._totals = torch.zeros(len(learners), self.spec.num_tasks + 1, device=self.device)
        self._fused_columns_at = fused(self._columns_at, self.device, is_wanted=self.cfg.compile)
        self._capture()

    def _capture(self) -> None:
        """Discard captured graphs, which would still use an optimizer's or the generator's old tensors."""
        self._act = Graphed(lambda: self._sample(self._obs, self.own_task), self.device, self.generator)
        self.update = Graphed(self._update_once, self.device, self.generator)

    # Collect

    @property
    def frames_per_iteration(self) -> int:
        """Environment steps that one iteration takes, over all worlds."""
        return self.rollout.reward.numel()

    @property
    def progress(self) -> float:
        """Fraction of the run's frames before this iteration."""
        return self.frames / self.total_frames

    def collect(self, env: VecEnv) -> None:
        """Set the learning rate of the iteration and take T steps of every world."""
        rate = scheduled(self.cfg.lr, self.cfg.schedule, self.progress)
        for learner in self.learners.values():
            learner.set_learning_rate(rate)
        roll_out(env, self._explore, self.own)
        self.worlds.gather_into(self.rollout.known_to_all, self.own.known_to_all, axis=1)
        self.worlds.gather_into(self.rollout.before, self.own.before)

    def _explore(self, obs: Tensor) -> Choice:
        self._obs.copy_(obs)
        choice: Choice = self._act()
        return choice

    # Update

    def learn(self) -> dict[str, Tensor]:
        """Run the epochs of the iteration; return losses and gradient norms, averaged over its updates."""
        epochs = self.cfg.epochs
        self.run_epochs(epochs)
        updates = epochs * self._sampler.shape[1]
        change = {} if self._change is None else self._change.metrics(epochs, updates, self.spec.tasks)
        return {**self._averages(updates), **change, "rollout/reward": self.rollout.reward.mean()}

    def run_epochs(self, epochs: int) -> None:
        """Run `epochs` passes over the rows, each in a new random order."""
        self._totals.zero_()
        if self._change is not None:
            self._change.start()
        for _ in range(epochs):
            for index in self._sampler.draw(self.generator, self._counted):
                self._index.copy_(index[:, self._columns])
                self.update()
            if self._change is not None:
                self._change.end_epoch(self._sampler.shape[1])

    @torch.no_grad()
    def _averages(self, updates: int) -> dict[str, Tensor]:
        metrics, tasks = {}, self.spec.tasks
        averages = self._totals / updates
        for (name, learner), average in zip(self.learners.items(), averages, strict=True):
            losses, kind = average[:-1], KINDS[name]
            metrics[f"loss/{kind}"] = losses.mean()
            metrics[f"grad_norm/{name}"] = average[-1]
            metrics[f"skipped/{kind}"] = learner.pop_skipped(updates)
            metrics |= {f"per_task/{task}/{kind}_loss": loss for task, loss in zip(tasks, losses, strict=True)}
            metrics |= learner.pop_weights(updates, kind, tasks)
            metrics |= learner.conflicts(f"conflict/{name}", tasks)
        return metrics

    def _update_once(self) -> None:
        """Take one optimizer step of every learner on the rows of `_index`, and sum up losses and gradient norms."""
        # Not within the compiled function: older versions of torch cannot change a named tuple there.
        batch = type(self.rows)(*self._fused_columns_at(self._index))
        # Learners that look back go first, so that their second evaluation overlaps with the steps of the others.
        pairs = zip(self._totals, self.learners.values(), strict=True)
        for total, learner in sorted(pairs, key=lambda pair: not pair[1].looks_back):
            losses, norm = learner.descend(batch)
            total += torch.cat([losses, norm.unsqueeze(0)])
            if learner.looks_back:
                self._aside.start(learner.look_back)
        if self._change is not None:
            self._change.add()
        self._aside.finish()

    def _columns_at(self, index: Tensor) -> list[Tensor]:
        """Gather the columns (K, b, ...) of the rows `index` and normalize the observations among them."""
        columns = {name: column[index] for name, column in self.rows._asdict().items()}
        for name in ("obs", "last_obs", "past_obs"):
            if name in columns and columns[name].shape[-1] > 0:
                columns[name] = self.obs_norm.normalize(columns[name], columns["task"])
        return list(columns.values())

    def last(self) -> Rows:
        """Return the rows (K * b, ...) of the last minibatch, with normalized observations."""
        columns = self._columns_at(self._index)
        return type(self.rows)(*(column.flatten(0, 1) for column in columns))

    def merge(self, metrics: dict[str, Tensor]) -> dict[str, Tensor]:
        """Average metrics () of the `last` rows over the rows of all ranks."""
        if self.ranks.is_alone:
            return metrics
        means, _ = self.ranks.mean(torch.stack(list(metrics.values())), self.rows_per_task)
        return dict(zip(metrics, means, strict=True))

    def finish(self) -> None:
        """Update the statistics of the observations and count the iteration."""
        # Last: until now all observations must be normalized as they were when the policy acted on them.
        self.obs_norm.update(self.rollout.obs, self.task)
        self.iteration += 1
        self.frames += self.frames_per_iteration

    # Save

    def networks(self) -> dict[str, nn.Module]:
        """Return the networks and the normalizer by name."""
        return {**{name: learner.net for name, learner in self.learners.items()}, "obs_norm": self.obs_norm}

    def state_dict(self) -> dict[str, Any]:
        """Return the state of learners, normalizer and generator, and the numbers of iterations and frames."""
        return {
            "learners": {name: learner.state_dict() for name, learner in self.learners.items()},
            "obs_norm": self.obs_norm.state_dict(),
            "generator": self.generator.get_state(),
            "iteration": self.iteration,
            "frames": self.frames,
            **({} if self._change is None else self._change.state_dict()),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned, possibly on another device."""
        for name, learner in self.learners.items():
            learner.load_state_dict(state["learners"][name])
        self.obs_norm.load_state_dict(state["obs_norm"])
        restore_generator(self.generator, state["generator"])
        if self._change is not None:
            self._change.load_state_dict(state)
        self.iteration = state["iteration"]
        self.frames = state.get("frames", self.iteration * self.frames_per_iteration)  # version 0.1 did not save them
        self._capture()


class SideStream:
    """A separate CUDA stream for work that may overlap with later work, also when captured; the CPU runs it at once."""

    def __init__(self, device: torch.device) -> None:
        """Create the stream."""
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._is_busy = False

    def start(self, work: Callable[[], None]) -> None:
        """Queue work after everything queued so far; its inputs must exist until `finish`."""
        if self._stream is None:
            work()
            return
        self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))
        with torch.cuda.stream(self._stream):
            work()
        self._is_busy = True

    def finish(self) -> None:
        """Make later work wait for the queued work, if there is any."""
        if self._stream is not None and self._is_busy:
            torch.cuda.current_stream(self._stream.device).wait_stream(self._stream)
        self._is_busy = False


def chunks(rows: int, size: int) -> Iterator[slice]:
    """Split `rows` rows into slices of at most `size`, to bound the memory that a pass over all of them needs."""
    return (slice(start, start + size) for start in range(0, rows, size))


def scheduled(value: float, schedule: str, progress: float) -> float:
    """Return the learning rate after a fraction `progress` of the run: constant, or linear to zero at its end."""
    return value * max(0.0, 1.0 - progress) if schedule == "linear" else value
