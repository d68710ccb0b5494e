"""Regress the Q-network to the stored targets and publish its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from polytask.files import Fields, check_fields, check_finite, load_tensors, restore, save_tensors
from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.learning.learner import QLearner
from polytask.mtopt.learning.weights import WeightFolder, Weights
from polytask.mtopt.roles.train_buffer import Examples, TrainBuffer
from polytask.mtopt.run_tasks import tasks_of

STATE = "learner.pt"
FORMAT = 1  # raised when the layout of the file changes
FIELDS: Fields = {"learner": dict, "version": int}


def load_state(path: Path) -> dict[str, Any]:
    """Read a saved trainer.

    Raises:
        UserError: If the file cannot be read, is damaged, or holds weights that are not finite.
    """
    state = load_tensors(path, "saved learner", format=FORMAT)
    check_fields(state, FIELDS, path)
    check_finite(state["learner"], path, "learner.")
    return state


class Trainer:
    """Owns the learner and the train buffer."""

    def __init__(self, config: RunConfig) -> None:
        """Build the learner, or restore the one that an earlier process saved in the run's folder.

        Raises:
            UserError: If the saved learner cannot be read or does not fit the configuration.
        """
        self.config = config
        self.learner = QLearner(config.learner, tasks_of(config).slots, config.device)
        self.buffer = TrainBuffer(
            config.trainer.buffer, config.world.image_shape, config.device, config.learner.network.action.size
        )
        self.folder = WeightFolder(config.weights, config.trainer.keep)
        self.generator = torch.Generator(config.device).manual_seed(config.seed)
        self.version = 0  # of the weights that were published last
        self.detector = ""  # version that gave the rewards of the examples in the buffer
        self.path = config.root / STATE
        if self.path.exists():
            self.load_state_dict(load_state(self.path))
        else:
            self.publish()

    def push(self, examples: Examples) -> None:
        """Add an updater's examples to the buffer; those of another detector replace all before them."""
        if examples.detector != self.detector:  # other rewards: the examples before are wrong
            self.buffer.clear()
            self.detector = examples.detector
        self.buffer.add(examples)

    def weights(self) -> Weights:
        """Return the copies that compute targets; they change with every update."""
        return Weights(self.version, self.learner.q1, self.learner.q2)

    def step(self, updates: int = 1) -> dict[str, float]:
        """Take optimizer steps on examples of the buffer; return mean metrics and mean ages of the versions."""
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
        totals = torch.stack(list(sums.values())).tolist()  # one wait for the device, not one per metric
        means = {name: value / updates for name, value in zip(sums, totals, strict=True)}
        return {**means, "updates": float(self.learner.step), "weights": float(self.version)}

    def publish(self) -> int:
        """Write the target networks as the next version and return the version."""
        self.version += 1
        self.folder.publish(self.version, self.learner.step, self.learner.q1, self.learner.q2)
        return self.version

    def save(self) -> None:
        """Write the state that a later process needs to continue, in one step; its train buffer starts empty."""
        save_tensors(self.path, {"format": FORMAT, **self.state_dict()})

    def state_dict(self) -> dict[str, Any]:
        """Return tensors and plain values."""
        return {"learner": self.learner.state_dict(), "version": self.version}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned.

        Raises:
            UserError: If the learner has another shape.
        """
        restore(self.learner, state["learner"], "learner")
        self.version = int(state["version"])
