"""Regress the Q-network to the stored targets and publish its weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from polytask.files import restore
from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.learning.learner import QLearner
from polytask.mtopt.learning.weights import WeightFolder, Weights
from polytask.mtopt.roles.train_buffer import Examples, TrainBuffer
from polytask.mtopt.world import ALL_TASKS
from polytask.runs.checkpoint import load, save

STATE = "learner.pt"


class Trainer:
    """Owns the learner and the train buffer."""

    def __init__(self, config: RunConfig) -> None:
        """Build the learner, or go on with the one that an earlier process saved in the run's folder."""
        self.config = config
        self.learner = QLearner(config.learner, len(ALL_TASKS), config.device)
        self.buffer = TrainBuffer(config.trainer.buffer, config.world.image_size, config.device)
        self.folder = WeightFolder(config.weights, config.trainer.keep)
        self.generator = torch.Generator(config.device).manual_seed(config.seed)
        self.version = 0  # of the weights that were published last
        self.path = config.root / STATE
        if self.path.exists():
            self.load_state_dict(load(self.path))
        else:
            self.publish()

    def push(self, examples: Examples) -> None:
        """Take an updater's examples in."""
        self.buffer.add(examples)

    def step(self, updates: int = 1) -> dict[str, float]:
        """Take optimiser steps on examples of the buffer; return means, and how old their versions are."""
        sums: dict[str, Tensor] = {}
        for _ in range(updates):
            batch, versions = self.buffer.sample(self.config.trainer.batch, self.generator)
            metrics = self.learner.update(batch, self.generator)
            aged = {
                "lag/targets": (self.version - versions[:, 1]).float().mean(),
                "lag/policy": (self.version - versions[:, 0]).float().mean(),
                "scripted": (versions[:, 0] == 0).float().mean(),
            }
            for name, value in {**metrics, **aged}.items():
                sums[name] = sums[name] + value if name in sums else value.clone()
        totals = torch.stack(list(sums.values())).tolist()  # one wait for the device, not one for each
        means = {name: value / updates for name, value in zip(sums, totals, strict=True)}
        return {**means, "updates": float(self.learner.step), "weights": float(self.version)}

    def publish(self) -> int:
        """Write the target networks as the next version and return it."""
        self.version += 1
        self.folder.publish(self.version, self.learner.step, self.learner.q1, self.learner.q2)
        return self.version

    def weights(self) -> Weights:
        """Give the present target networks by reference, for whoever lives in the same process."""
        return Weights(self.version, self.learner.step, self.learner.q1, self.learner.q2)

    def save(self) -> None:
        """Write all that a later process needs to go on, in one step; the train buffer starts empty then."""
        save(self.path, self.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """Give tensors and plain values."""
        return {"learner": self.learner.state_dict(), "version": self.version}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` returned."""
        restore(self.learner, state["learner"], "learner")
        self.version = int(state["version"])
