"""Compute Bellman targets: turn transitions into examples for the trainer."""

from __future__ import annotations

import torch

from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.learning.bellman import return_to_go, targets
from polytask.mtopt.learning.transitions import Transitions
from polytask.mtopt.learning.weights import WeightFolder, Weights
from polytask.mtopt.roles.train_buffer import Examples


class BellmanUpdater:
    """Holds the newest target networks it has loaded."""

    def __init__(self, config: RunConfig, seed: int = 0) -> None:
        """Start without weights; `sync` loads them, or `use` sets them."""
        self.config = config
        self.folder = WeightFolder(config.weights)
        self.weights: Weights | None = None
        self.generator = torch.Generator(config.device).manual_seed(seed)

    def sync(self) -> None:
        """Load newer weights, if there are any."""
        self.weights = self.folder.newer(self.weights, self.config.learner, self.config.device)

    def use(self, weights: Weights) -> None:
        """Compute targets with these weights from now on."""
        self.weights = weights

    def step(self, batch: Transitions, detector: str) -> Examples:
        """Compute the targets of transitions.

        Args:
            batch: On the configured device.
            detector: Version that gave the batch's rewards.
        """
        if self.weights is None:
            raise RuntimeError("an updater needs weights before its first step")
        learner = self.config.learner
        bound = None
        if self.config.updater.lower_bound:
            bound = return_to_go(batch.success, batch.remaining, learner.bellman)
        target = targets(self.weights.q1, self.weights.q2, batch, learner.bellman, self.generator, bound)
        return Examples(
            batch.image,
            batch.closed,
            batch.height,
            batch.task,
            batch.action,
            target,
            batch.pose,
            batch.policy,
            self.weights.version,
            detector,
        )
