"""Parts that on-policy learners share: epochs of task-major minibatches over the rows of a rollout, and schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from polytask.algos.shared.learner import Learner, restore_generator
from polytask.algos.shared.normalize import TaskNormalizer
from polytask.algos.shared.rollout import TaskMajorSampler
from polytask.cuda_graph import Graphed
from polytask.errors import UserError

MinibatchRows = (
    Any  # a named tuple of tensors with the same leading axes, including `obs` (raw observations) and `task`
)

SCHEDULES = ("constant", "linear")
KINDS = {"actor": "policy", "critic": "value"}  # name of each learner's loss in the metrics


class MinibatchUpdates:
    """Updates every learner on each minibatch of every epoch; on a CUDA device an update is one captured graph."""

    def __init__(
        self,
        rows: MinibatchRows,
        sampler: TaskMajorSampler,
        learners: dict[str, Learner],
        obs_norm: TaskNormalizer,
        generator: torch.Generator,
    ) -> None:
        """Store the parts and allocate the buffers.

        Args:
            rows: All rows of a rollout (T * N, ...), in tensors that each rollout overwrites.
            sampler: Chooses the rows of each minibatch.
            learners: The learners by name, "actor" or "critic", in the order of their steps.
            obs_norm: Normalizes the observations of a minibatch; the algorithm updates its statistics.
            generator: Source of random numbers for the sampler and the gradient methods.
        """
        self.rows, self.sampler, self.learners = rows, sampler, learners
        self.obs_norm, self.generator = obs_norm, generator
        self.device = rows.task.device
        num_tasks, _, per_task = sampler.shape
        self._index = torch.zeros(num_tasks, per_task, dtype=torch.int64, device=self.device)
        # The losses and the gradient norm of each learner, summed over the updates.
        self._totals = torch.zeros(len(learners), num_tasks + 1, device=self.device)
        self._count = 0
        self._aside = SideStream(self.device)
        self.capture()

    def capture(self) -> None:
        """Discard a captured graph, which would still use an optimizer's old tensors."""
        self.update = Graphed(self._update_once, self.device, self.generator)

    def run(self, epochs: int) -> None:
        """Run `epochs` passes over the rows, each in a new random order."""
        self._totals.zero_()
        self._count = epochs * self.sampler.shape[1]
        for _ in range(epochs):
            for index in self.sampler.draw(self.generator):
                self._index.copy_(index)
                self.update()

    def _update_once(self) -> None:
        """Take one optimizer step of every learner on the rows of `_index`, and sum up losses and gradient norms."""
        batch = self._minibatch()
        # Learners that look back go first, so that their second evaluation overlaps with the steps of the others.
        pairs = zip(self._totals, self.learners.values(), strict=True)
        for total, learner in sorted(pairs, key=lambda pair: not pair[1].looks_back):
            losses, norm = learner.descend(batch)
            total += torch.cat([losses, norm.unsqueeze(0)])
            if learner.looks_back:
                self._aside.start(learner.look_back)
        self._aside.finish()

    def _minibatch(self) -> MinibatchRows:
        """Gather the rows (K, b, ...) of `_index` and normalize their observations."""
        raw = tree_map(lambda tensor: tensor[self._index], self.rows)
        return raw._replace(obs=self.obs_norm.normalize(raw.obs, raw.task))

    def last(self) -> MinibatchRows:
        """Return the rows (K * b, ...) of the last minibatch, with normalized observations."""
        return tree_map(lambda tensor: tensor.flatten(0, 1), self._minibatch())

    @torch.no_grad()
    def metrics(self, tasks: Sequence[str]) -> dict[str, Tensor]:
        """Return the losses and gradient norms of the last run, averaged over its updates."""
        metrics = {}
        for (name, learner), average in zip(self.learners.items(), self._totals / self._count, strict=True):
            losses, kind = average[:-1], KINDS[name]
            metrics[f"loss/{kind}"] = losses.mean()
            metrics[f"grad_norm/{name}"] = average[-1]
            metrics |= {f"per_task/{task}/{kind}_loss": loss for task, loss in zip(tasks, losses, strict=True)}
            metrics |= learner.conflicts(f"conflict/{name}", tasks)
        return metrics

    def set_learning_rate(self, value: float) -> None:
        """Change the learning rate of every learner."""
        for learner in self.learners.values():
            learner.set_learning_rate(value)

    def networks(self) -> dict[str, nn.Module]:
        """Return the networks and the normalizer by name."""
        return {**{name: learner.net for name, learner in self.learners.items()}, "obs_norm": self.obs_norm}

    def state_dict(self) -> dict[str, Any]:
        """Return the state of learners, normalizer and generator."""
        return {
            "learners": {name: learner.state_dict() for name, learner in self.learners.items()},
            "obs_norm": self.obs_norm.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned, possibly on another device."""
        for name, learner in self.learners.items():
            learner.load_state_dict(state["learners"][name])
        self.obs_norm.load_state_dict(state["obs_norm"])
        restore_generator(self.generator, state["generator"])
        self.capture()


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


def check_rate_schedule(schedule: str) -> None:
    """Check that the schedule of the learning rate is known."""
    if schedule not in SCHEDULES:
        raise UserError(f"algo.schedule is {schedule!r}; choose one of {', '.join(SCHEDULES)}")


def scheduled(value: float, schedule: str, progress: float) -> float:
    """Return the learning rate after a fraction `progress` of the run: constant, or linear to zero at its end."""
    return value * max(0.0, 1.0 - progress) if schedule == "linear" else value
