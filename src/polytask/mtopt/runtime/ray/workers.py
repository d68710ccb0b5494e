"""The actors: each holds one role. `open` builds the role, so that its errors look like those of any other call.

Methods that return two values are called with two references: a small answer for the driver, and bulk data that only
another worker reads. Every call may come twice: the successor of a dead worker receives its unanswered calls again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import torch

from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.config.world_specs import WORLDS, WorldSpec
from polytask.mtopt.learning.transitions import Transitions
from polytask.mtopt.roles import (
    BellmanUpdater,
    Collector,
    Evaluation,
    Evaluator,
    Examples,
    Grader,
    Order,
    TaskReplay,
    Trainer,
)
from polytask.mtopt.runtime.base import Metrics
from polytask.mtopt.runtime.label_jobs import LabelJobs
from polytask.mtopt.runtime.ray.transfer import (
    CollectedSequence,
    FileRef,
    MemoryLog,
    TemporaryCopy,
    to_arrays,
    to_tensors,
)
from polytask.mtopt.seeds import derive
from polytask.mtopt.store import EpisodeStore
from polytask.mtopt.task_table import TaskTable


class Worker:
    """The part that all workers have in common."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config

    def open(self) -> int:
        """Build the role and return the process id."""
        self.build()
        return os.getpid()

    def build(self) -> None:
        """Build the role, if there is something to build."""

    def close(self) -> None:
        """Close what is open, if anything."""


class CollectorWorker(Worker):
    """Runs worlds, on any machine."""

    def __init__(self, config: RunConfig, name: str, tasks: TaskTable, spec: WorldSpec) -> None:
        super().__init__(config)
        self.name, self.tasks = name, tasks
        WORLDS[spec.name] = spec  # a plug-in may have registered it, in the driver alone

    def build(self) -> None:
        """Build the worlds."""
        self.copy, self.log = TemporaryCopy(), MemoryLog()
        self.role = Collector(replace(self.config, run_dir=str(self.copy.root)), self.name, self.log, self.tasks)

    def step(self, order: Order, files: Sequence[FileRef]) -> tuple[Metrics, CollectedSequence]:
        """Collect one sequence with the newest weights and the detector in use."""
        self.copy.update(files, self.role.sync)
        metrics, sequence = self.role.step(order), self.log.take()
        return {**metrics, "bytes": float(sequence.size)}, sequence


class WriterWorker(Worker):
    """Stores the episodes of all collectors; the only worker that writes episodes."""

    def build(self) -> None:
        """Open the store."""
        self.store = EpisodeStore(self.config.root, self.config.storage)
        self.writer = self.store.writer("collected")

    def enter(self, order: Order, sequence: CollectedSequence) -> Metrics:
        """Store a sequence unless it is stored already: a writer may die between storing it and its answer."""
        stored = self.store.count_seed(order.seed)
        if not stored:
            numbers = self.writer.append_many(sequence.episodes)
            if sequence.labels:
                labels = [replace(label, episode=numbers[label.episode]) for label in sequence.labels]
                self.store.add_labels(labels)
        return {"episodes": float(stored or len(sequence.episodes)), "twice": float(stored > 0)}

    def count(self) -> int:
        """Count the collected episodes; uploaded examples have no seed and do not count."""
        return len(self.store) - self.store.count_seed(0)

    def close(self) -> None:
        """Complete the shard."""
        self.writer.close()
        self.store.close()


class ReplayWorker(Worker):
    """Holds the task buffers; a successor fills them from the store again."""

    def __init__(self, config: RunConfig, life: int) -> None:
        super().__init__(config)
        self.life = life

    def build(self) -> None:
        """Reserve the buffers."""
        self.role = TaskReplay(self.config)
        seed = derive(self.config.seed, "draws", self.life)
        self.generator = torch.Generator(self.config.device).manual_seed(seed)
        if self.life:
            self.role.fill()

    def fill(self, turn: int) -> None:
        """Read all new episodes, and hold those whose turn it is."""
        self.role.fill(turn)

    def sample(self) -> tuple[str, tuple[Any, ...]]:
        """Draw transitions; also return the version of the detector that gave their rewards."""
        return self.role.detector, to_arrays(self.role.sample(self.config.updater.rows, self.generator))

    def close(self) -> None:
        """Close the store."""
        self.role.close()


class UpdaterWorker(Worker):
    """Computes Bellman targets, on any machine."""

    def __init__(self, config: RunConfig, number: int, life: int) -> None:
        super().__init__(config)
        self.number, self.life = number, life

    def build(self) -> None:
        """Build the updater."""
        self.copy = TemporaryCopy()
        seed = derive(self.config.seed, "targets", self.number, self.life)
        self.role = BellmanUpdater(replace(self.config, run_dir=str(self.copy.root)), seed)

    def step(self, drawn: Sequence[Any], detector: str, files: Sequence[FileRef]) -> tuple[Metrics, tuple[Any, ...]]:
        """Compute the targets of transitions with the newest weights at the time of the call."""
        self.copy.update(files, self.role.sync)
        batch = Transitions(*to_tensors(drawn, self.config.device))
        examples = self.role.step(batch, detector)
        return {"weights": float(examples.weights)}, to_arrays(vars(examples).values())


class TrainerWorker(Worker):
    """Owns the learner; a successor continues from the state that was saved last."""

    def build(self) -> None:
        """Build or load the learner."""
        self.role = Trainer(self.config)
        self._released = self.role.learner.copied
        # A trainer that died between publishing and saving has used a version, which must not be used again.
        self.role.version = max(self.role.version, self.role.folder.newest() or 0)
        self.role.generator.manual_seed(derive(self.config.seed, "train", self.role.learner.step))

    def updates(self) -> int:
        """Return the number of updates of the learner."""
        return self.role.learner.step

    def feed(self, examples: Sequence[Any], updates: int) -> Metrics:
        """Add examples to the buffer and make updates; if they have copied Q2, publish both copies to the updaters."""
        self.role.push(Examples(*to_tensors(examples, "cpu")))
        made = self.role.step(updates) if updates else {}
        if self.role.learner.copied > self._released:
            self._released = self.role.learner.copied
            self.role.publish()
        return {**made, "updates": float(self.role.learner.step), "weights": float(self.role.version)}

    def release(self, target: int) -> Metrics:
        """Publish the weights and save the state, if the learner has made this number of updates."""
        if self.role.learner.step >= target:
            self.role.publish()
            self.role.save()
        return {"updates": float(self.role.learner.step), "weights": float(self.role.version)}


class LabelWorker(Worker, LabelJobs):
    """Makes labels, detectors and verdicts."""


class GraderWorker(Worker):
    """Lets the detector in use judge a part of the log, beside other graders."""

    def grade(self, after: int, until: int) -> Metrics:
        """Label the episodes in (after, until]."""
        with closing(Grader(self.config)) as grader:
            return grader.run(after=after, until=until)


class EvaluatorWorker(Worker):
    """Evaluates policies."""

    def __init__(self, config: RunConfig, spec: WorldSpec) -> None:
        super().__init__(config)
        WORLDS[spec.name] = spec

    def build(self) -> None:
        """Build the worlds."""
        self.role = Evaluator(self.config)

    def step(self) -> tuple[Evaluation, int]:
        """Evaluate the newest weights; also return the last episode of the store."""
        return self.role.measure()
