"""Targets and update of Q-learning as one CUDA graph, for runs in which one process does both.

An update of the small network is some hundred short kernels: launched one by one they keep the host busier than the
device. Batches are copied into tensors that stay where they are, and the graph reads those. On the CPU the same code
is simply called, and gives what `QLearner.targets` and `QLearner.update` give.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from polytask.cuda_graph import Graphed
from polytask.mtopt.learning.bellman import return_to_go
from polytask.mtopt.learning.buffers import Transitions
from polytask.mtopt.learning.learner import QLearner, TrainBatch


class CapturedUpdate:
    """Takes batches of transitions of one size and trains on them."""

    def __init__(
        self,
        learner: QLearner,
        generator: torch.Generator,
        has_bound: bool = False,
        has_next: bool = True,
        is_eager: bool = False,
    ) -> None:
        """Prepare; the first batches run eagerly and are updates like all others.

        Args:
            learner: What to train.
            generator: Source of CEM samples and augmentation, on the learner's device.
            has_bound: Use what each episode got, discounted and less its cost, as a lower bound on its targets.
            has_next: False where every action ends its episode: then what it got is the target, and no CEM is run.
            is_eager: Capture nothing.
        """
        self.learner, self._generator = learner, generator
        self._has_bound, self._has_next = has_bound, has_next
        self._held: Transitions | None = None
        device = torch.device("cpu") if is_eager else learner.device  # only CUDA devices capture
        self._run = Graphed(self._step, device, generator)

    def __call__(self, batch: Transitions) -> dict[str, Tensor]:
        """Compute targets for a batch and take one step towards them; the metrics are overwritten by the next call."""
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
        """Do what happens on the device."""
        assert self._held is not None
        row, learner, bellman = self._held, self.learner, self.learner.config.bellman
        if self._has_next:
            bound = return_to_go(row.success, row.remaining, bellman) if self._has_bound else None
            target = learner.targets(row, self._generator, bound)
        else:
            target = (row.reward - bellman.cost).clamp(0, 1)
        example = TrainBatch(row.image, row.closed, row.height, row.task, row.action, target, row.pose)
        return {**learner.learn(example, self._generator), "done": row.done.float().mean()}
