"""The actors: each holds one role. Building is left to `open`, so that what goes wrong there reads like any error.

Methods that return two things are called with two references: a small answer for the driver, and bulk data that only
another worker fetches. Everything may be asked twice: a successor is asked again what a dead worker did not answer.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.learning.buffers import Transitions
from polytask.mtopt.roles import (
    BellmanUpdater,
    Collector,
    DetectorTrainer,
    Evaluation,
    Evaluator,
    Examples,
    Labeller,
    Order,
    Replay,
    Teacher,
    Trainer,
)
from polytask.mtopt.roles.controller import Tries
from polytask.mtopt.roles.labeller import tally
from polytask.mtopt.runtime.ray.transfer import Harvest, Mirror, Outbox, Parcel, to_arrays, to_tensors
from polytask.mtopt.seeds import derive
from polytask.mtopt.store import EpisodeStore

Metrics = dict[str, float]


class CollectorWorker:
    """Runs bins, on any machine."""

    def __init__(self, config: RunConfig, name: str) -> None:
        self.config, self.name = config, name

    def open(self) -> int:
        """Build the worlds and return the process."""
        self.mirror, self.outbox = Mirror(), Outbox()
        self.role = Collector(replace(self.config, run_dir=str(self.mirror.root)), self.name, self.outbox)
        return os.getpid()

    def step(self, order: Order, parcels: Sequence[Parcel]) -> tuple[Metrics, Harvest]:
        """Carry out one sequence by the newest weights and the detector in use."""
        self.mirror.bring(parcels, self.role.sync)
        return self.role.step(order), self.outbox.take()

    def close(self) -> None:
        """Do nothing: nothing is open."""


class WriterWorker:
    """Enters what all collectors send; the only one that writes episodes."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config

    def open(self) -> int:
        """Open the store and return the process."""
        self.store = EpisodeStore(self.config.root, self.config.storage)
        self.writer = self.store.writer("collected")
        self._seeds: Counter[int] = Counter()  # episodes of each order, which its seed names
        self._last = 0
        return os.getpid()

    def enter(self, order: Order, harvest: Harvest) -> Metrics:
        """Store a sequence unless it is there: a writer may die between storing and saying so."""
        stored = self._stored()[order.seed]
        if not stored:
            numbers = self.writer.append_many(harvest.episodes)
            if harvest.labels:
                labels = [replace(label, episode=numbers[label.episode]) for label in harvest.labels]
                self.store.add_labels(labels)
        return {"episodes": float(stored or len(harvest.episodes)), "twice": float(stored > 0)}

    def count(self) -> int:
        """Count the collected episodes; examples that people uploaded have no seed and do not count."""
        return sum(count for seed, count in self._stored().items() if seed)

    def close(self) -> None:
        """Complete the shard."""
        self.writer.close()
        self.store.close()

    def _stored(self) -> Counter[int]:
        for row in self.store.rows(after=self._last):
            self._seeds[row.seed] += 1
            self._last = row.id
        return self._seeds


class ReplayWorker:
    """Holds the task buffers; one that takes over fills them from the store again."""

    def __init__(self, config: RunConfig, life: int) -> None:
        self.config, self.life = config, life

    def open(self) -> int:
        """Reserve the buffers and return the process."""
        self.role = Replay(self.config)
        seed = derive(self.config.seed, "draws", self.life)
        self.generator = torch.Generator(self.config.device).manual_seed(seed)
        if self.life:
            self.role.fill()
        return os.getpid()

    def fill(self) -> Metrics:
        """Take in all that is there."""
        return self.role.fill()

    def sample(self) -> tuple[str, tuple[Any, ...]]:
        """Draw transitions; also name the detector that their rewards come from."""
        return self.role.detector, to_arrays(self.role.sample(self.config.updater.rows, self.generator))

    def close(self) -> None:
        """Close the store."""
        self.role.close()


class UpdaterWorker:
    """Computes Bellman targets, on any machine."""

    def __init__(self, config: RunConfig, number: int, life: int) -> None:
        self.config, self.number, self.life = config, number, life

    def open(self) -> int:
        """Prepare and return the process."""
        self.mirror = Mirror()
        seed = derive(self.config.seed, "targets", self.number, self.life)
        self.role = BellmanUpdater(replace(self.config, run_dir=str(self.mirror.root)), seed)
        return os.getpid()

    def step(self, drawn: Sequence[Any], detector: str, parcels: Sequence[Parcel]) -> tuple[Metrics, tuple[Any, ...]]:
        """Compute the targets of transitions by the newest weights that were published when this was asked."""
        self.mirror.bring(parcels, self.role.sync)
        batch = Transitions(*to_tensors(drawn, self.config.device))
        examples, metrics = self.role.step(batch, detector)
        return metrics, to_arrays(vars(examples).values())

    def close(self) -> None:
        """Do nothing: nothing is open."""


class TrainerWorker:
    """Owns the learner; one that takes over goes on from what was saved last."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config

    def open(self) -> int:
        """Build or load the learner and return the process."""
        self.role = Trainer(self.config)
        # A trainer that died between publishing and saving has used a number: no two weights share one.
        self.role.version = max(self.role.version, self.role.folder.newest() or 0)
        self.role.generator.manual_seed(derive(self.config.seed, "train", self.role.learner.step))
        return os.getpid()

    def updates(self) -> int:
        """Count the updates of the learner."""
        return self.role.learner.step

    def feed(self, examples: Sequence[Any], updates: int) -> Metrics:
        """Take examples in and make updates."""
        self.role.push(Examples(*to_tensors(examples, "cpu")))
        made = self.role.step(updates) if updates else {}
        return {**made, "updates": float(self.role.learner.step)}

    def release(self, target: int) -> Metrics:
        """Publish the weights and save the state, if the learner has come so far."""
        if self.role.learner.step >= target:
            self.role.publish()
            self.role.save()
        return {"updates": float(self.role.learner.step), "weights": float(self.role.version)}

    def close(self) -> None:
        """Do nothing: what counts is saved."""


class LabelWorker:
    """Sees to labels, detectors and verdicts; each job is done from what lies in the store."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config

    def open(self) -> int:
        """Return the process."""
        return os.getpid()

    def is_ready(self) -> bool:
        """Tell whether labels can be had."""
        teacher = Teacher(self.config)
        is_ready = teacher.is_ready
        teacher.close()
        return is_ready

    def label(self, round_number: int) -> Metrics:
        """Bring the labels of a round."""
        teacher = Teacher(self.config)
        metrics = teacher.step(round_number)
        teacher.close()
        return metrics

    def detector(self, version: str) -> Metrics:
        """Train a detector."""
        trainer = DetectorTrainer(self.config)
        metrics = trainer.step(version)
        trainer.close()
        return metrics

    def grade(self, seen: int) -> tuple[Metrics, dict[str, dict[str, Tries]]]:
        """Let the detector in use label everything; also count attempts and successes."""
        labeller = Labeller(self.config)
        metrics = labeller.run()
        tries = tally(labeller.store, self.config.learned, labeller.judge, seen)
        labeller.close()
        return metrics, tries

    def close(self) -> None:
        """Do nothing: nothing is open."""


class EvaluatorWorker:
    """Measures policies."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config

    def open(self) -> int:
        """Build the worlds and return the process."""
        self.role = Evaluator(self.config)
        return os.getpid()

    def step(self) -> tuple[Evaluation, int]:
        """Measure the newest weights; also return the last episode of the store."""
        self.role.sync()
        evaluation = self.role.step()
        store = EpisodeStore(self.config.root, self.config.storage)
        rows = store.rows()
        store.close()
        return evaluation, rows[-1].id if rows else 0

    def close(self) -> None:
        """Do nothing: nothing is open."""
