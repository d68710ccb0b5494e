"""Run all roles one after the other, in one process: deterministic, and resumable at any moment.

A job is a function of the contents of the run's folder, of the seed and of its number. So a killed run starts its last
job again and ends as if it had never stopped.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.roles import BellmanUpdater, Collector, Evaluation, Evaluator, Job, TaskReplay, Trainer
from polytask.mtopt.roles.tries import Tries
from polytask.mtopt.runtime.base import Metrics, Report, Runtime, Stops
from polytask.mtopt.runtime.label_jobs import LabelJobs
from polytask.mtopt.runtime.pace import UpdatePace
from polytask.mtopt.seeds import derive


class LocalRuntime(Runtime):
    """Owns one of each role, which is built when it is first needed."""

    def __init__(self, config: RunConfig, report: Report, *, is_plan: bool = True) -> None:
        """Begin or continue the run in the configured folder; see `Runtime`."""
        super().__init__(config, report, is_plan=is_plan)
        self._jobs = {**self._jobs, "collect": self._collect}
        self._label_jobs = LabelJobs(config)
        self.updates_left = 0
        self._collector: Collector | None = None
        self._replay: TaskReplay | None = None
        self._trainer: Trainer | None = None
        self._evaluator: Evaluator | None = None  # remembers what simple policies reach

    def run(self, stops: Stops = ()) -> Evaluation | None:
        """Do all remaining jobs, or those before a stop, and return the last evaluation.

        Returns:
            None if there is no evaluation yet, or a person has to label first.
        """
        if self.controller.phase == "train":
            self._label_jobs.grade_new(stops)
        while not self.controller.is_done and not stops:
            if not self._do_next():
                return None
        return self.evaluation

    def collect(self, episodes: int, stops: Stops = ()) -> Metrics:
        """Collect at least this number of episodes more; they count for the present round."""
        added = 0
        while added < episodes and not stops:
            job, began = self.controller.extra("collect"), time.monotonic()
            metrics = self._collect(job)
            added += int(metrics["episodes"])
            self.controller.count(int(metrics["episodes"]))
            self._log(job, metrics, time.monotonic() - began)
        return {"episodes": float(len(self._collecting().store)), "added": float(added)}

    def train(self, updates: int, stops: Stops = ()) -> Metrics:
        """Grade new episodes and make more updates from the episodes of the store.

        After a stop, `updates_left` is the number of those that were not made.
        """
        self._label_jobs.grade_new(stops)
        trainer, metrics = self._training(), dict[str, float]()
        end = trainer.learner.step + updates
        while trainer.learner.step < end and not stops:
            target = min(end, trainer.learner.step + self.config.trainer.publish_every)
            job, began = self.controller.extra("train", target), time.monotonic()
            metrics = self._train(job)
            self.controller.updates = target
            self._log(job, metrics, time.monotonic() - began)
        self.updates_left = end - trainer.learner.step
        return metrics

    def close(self) -> None:
        """Complete files and close the store."""
        for role in (self._collector, self._replay):
            if role is not None:
                role.close()
        self.folder.close()

    # --- jobs -------------------------------------------------------------------------------------------------------

    def _has_labels(self) -> bool:
        return self._label_jobs.is_ready()

    def _collect(self, job: Job) -> Metrics:
        return self._collecting().step(self.controller.order(job))

    def _label(self, job: Job) -> Metrics:
        return self._label_jobs.label(job.round, job.part)

    def _make_detector(self, version: str) -> Metrics:
        return self._label_jobs.train_detector(version)

    def _grade_episodes(self) -> tuple[Metrics, dict[str, dict[str, Tries]]]:
        return self._label_jobs.grade(self.controller.seen)

    def _train(self, job: Job) -> Metrics:
        """Train the learner up to the job's number of updates, with targets of its own copies."""
        config, trainer, replay = self.config, self._training(), self._replaying()
        replay.fill(job.number)
        start = trainer.learner.step
        trainer.buffer.clear()  # the job must depend on the saved state alone
        trainer.generator.manual_seed(derive(config.seed, "train", start))
        updater = BellmanUpdater(config, derive(config.seed, "targets", start))
        updater.use(trainer.weights())
        draws = torch.Generator(config.device).manual_seed(derive(config.seed, "draws", start))
        pace = UpdatePace(config)
        while (left := job.target - trainer.learner.step) > 0:
            trainer.push(updater.step(replay.sample(config.updater.rows, draws), replay.detector))
            if updates := pace.allow(left):
                pace.add(trainer.step(updates), updates)
        if trainer.learner.step > start:
            trainer.publish()
            trainer.save()
        means = pace.means(trainer.learner.step - start)
        return {**means, "updates": float(trainer.learner.step), "weights": float(trainer.version)}

    def _measure(self) -> tuple[Evaluation, int]:
        self._evaluator = self._evaluator or Evaluator(self.config, self._collecting().world)
        return self._evaluator.measure()

    def _facts(self, job: Job) -> dict[str, Any]:
        return {"detector": self._replaying().detector} if job.kind == "train" else {}

    # --- roles ------------------------------------------------------------------------------------------------------

    def _collecting(self) -> Collector:
        self._collector = self._collector or Collector(self.config)
        return self._collector

    def _replaying(self) -> TaskReplay:
        self._replay = self._replay or TaskReplay(self.config)
        return self._replay

    def _training(self) -> Trainer:
        self._trainer = self._trainer or Trainer(self.config)
        return self._trainer
