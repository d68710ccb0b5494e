"""Targets and update of Q-learning as one CUDA graph, for experiments in which one process does both.

An update of the small network is about a hundred short kernels. If the host launches them one by one, the device waits
for the host. Batches are copied into tensors with fixed addresses, and the graph reads those. On the CPU the same code
is called directly, with the same result as `QLearner.targets` and `QLearner.update`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from polytask.cuda_graph import Graphed
from polytask.mtopt.learning.bellman import return_to_go
from polytask.mtopt.learning.learner import QLearner, TrainBatch
from polytask.mtopt.learning.transitions import Transitions


class CapturedUpdate:
    """Trains on batches of transitions of one size."""

    def __init__(
        self,
        learner: QLearner,
        generator: torch.Generator,
        has_bound: bool = False,
        has_next: bool = True,
        is_eager: bool = False,
    ) -> None:
        """Prepare; the first batches run without a graph and are updates like all others.

        Args:
            learner: Learner to train.
            generator: Source of CEM samples and augmentation, on the learner's device.
            has_bound: Use the return of each episode as a lower bound on its targets.
            has_next: False if every action ends its episode: then the reward is the target, and CEM is not needed.
            is_eager: Capture nothing.
        """
        self.learner, self._generator = learner, generator
        self._has_bound, self._has_next = has_bound, has_next
        self._held: Transitions | None = None  # the tensors that the graph reads
        device = torch.device("cpu") if is_eager else learner.device  # only CUDA devices capture
        self._run = Graphed(self._step, device, generator)

    def __call__(self, batch: Transitions) -> dict[str, Tensor]:
        """Compute targets for a batch and take one step towards them; the next call overwrites the metrics."""
        if self._held is None:
            self._held = Transitions(*(part.clone() for part in batch))
        else:
            for held, part in zip(self._held, batch, strict=True):
                held.copy_(part)
        self.learner.begin()
        metrics: dict[str, Any] = self._run()
        self.learner.count()
        return metrics

    def _step(self) -> dict[str, Tensor]:
        """Do the part that runs on the device."""
        assert self._held is not None
        row, learner, bellman = self._held, self.learner, self.learner.config.bellman
        if self._has_next:
            bound = return_to_go(row.success, row.remaining, bellman) if self._has_bound else None
            target = learner.targets(row, self._generator, bound)
        else:
            target = (row.reward - bellman.cost).clamp(0, 1)
        example = TrainBatch(row.image, row.closed, row.height, row.task, row.action, target, row.pose)
        return {**learner.learn(example, self._generator), "done": row.done.float().mean()}
