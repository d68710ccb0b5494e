"""Run all roles in turn, in one process: deterministic, and resumable at any moment.

The work is cut into jobs. A job is a function of what lies in the run's folder, of the seed and of its number; the
folder's state is replaced in one step when it is done. So a killed run begins its last job again and ends as if it
had never stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.roles import (
    BellmanUpdater,
    Collector,
    Controller,
    DetectorTrainer,
    Evaluation,
    Evaluator,
    Job,
    Labeller,
    Replay,
    Teacher,
    Trainer,
)
from polytask.mtopt.roles.labeller import tally
from polytask.mtopt.runtime.folder import RunFolder
from polytask.mtopt.seeds import derive

Say = Callable[[str], None]
SHOWN = ("episodes", "labels", "balanced_accuracy", "switched", "loss", "value", "updates", "success")  # in a line


class LocalRuntime:
    """Owns one of each role, made when first needed."""

    def __init__(self, config: RunConfig, say: Say, *, is_plan: bool = True) -> None:
        """Begin or go on with the run in the configured folder.

        Args:
            config: Settings.
            say: Takes a line for whoever watches.
            is_plan: Let the settings be those of the run from now on; not where they are for one command.
        """
        self.config, self.say = config, say
        self.folder = RunFolder(config.root)
        state = self.folder.begin(config, is_plan=is_plan)
        self.controller = Controller(config)
        if state is not None and state["controller"] is not None:
            self.controller.load_state_dict(state["controller"])
        saved = state["evaluation"] if state else None
        self.evaluation = Evaluation.load(saved) if saved else None
        self._collector: Collector | None = None
        self._replay: Replay | None = None
        self._trainer: Trainer | None = None
        self._do: Mapping[str, Callable[[Job], dict[str, float]]] = {
            "collect": self._collect,
            "label": self._label,
            "detector": self._detector,
            "grade": self._grade,
            "train": self._train,
            "evaluate": self._evaluate,
        }

    def run(self) -> Evaluation | None:
        """Do everything that is left and return the last evaluation; None where a person's labels are waited for."""
        while (job := self.controller.next()) is not None:
            if job.kind == "label" and not self._has_labels():
                self.controller.give_up(job)
                return None
            began = time.monotonic()
            metrics = self._do[job.kind](job)
            self.controller.finish(job, metrics)
            self._note(job, metrics, time.monotonic() - began)
        return self.evaluation

    def collect(self, episodes: int) -> dict[str, float]:
        """Fill the store until it holds so many episodes; they count for the round that the run is in."""
        collector = self._collecting()
        before = len(collector.store)
        while len(collector.store) < episodes:
            job, began = self.controller.extra("collect"), time.monotonic()
            metrics = collector.step(self.controller.order(job))
            self.controller.count(int(metrics["episodes"]))
            self._note(job, metrics, time.monotonic() - began)
        return {"episodes": float(len(collector.store)), "added": float(len(collector.store) - before)}

    def train(self, updates: int) -> dict[str, float]:
        """Grade what is not graded yet and make more updates from what the store holds."""
        labeller = Labeller(self.config)
        labeller.run()
        labeller.close()
        trainer, metrics = self._training(), dict[str, float]()
        end = trainer.learner.step + updates
        while trainer.learner.step < end:
            target = min(end, trainer.learner.step + self.config.trainer.publish_every)
            job, began = self.controller.extra("train", target), time.monotonic()
            metrics = self._train(job)
            self.controller.updates = target
            self._note(job, metrics, time.monotonic() - began)
        return metrics

    def close(self) -> None:
        """Complete files and close the store."""
        for role in (self._collector, self._replay):
            if role is not None:
                role.close()
        self.folder.close()

    # --- jobs -------------------------------------------------------------------------------------------------------

    def _collect(self, job: Job) -> dict[str, float]:
        return self._collecting().step(self.controller.order(job))

    def _label(self, job: Job) -> dict[str, float]:
        teacher = Teacher(self.config)
        metrics = teacher.step(job.round)
        teacher.close()
        return metrics

    def _detector(self, job: Job) -> dict[str, float]:
        trainer = DetectorTrainer(self.config)
        metrics = trainer.step(f"run-{job.number + 1}")
        trainer.close()
        return metrics

    def _grade(self, job: Job) -> dict[str, float]:
        labeller = Labeller(self.config)
        metrics = labeller.run()
        tries = tally(labeller.store, self.config.learned, labeller.judge, self.controller.seen)
        labeller.close()
        switched = self.controller.compare(tries) if job.round > 0 else []
        rates = {f"tries/{task}/{source}": one.rate for task, each in tries.items() for source, one in each.items()}
        return {**metrics, "switched": float(len(switched)), **rates}

    def _train(self, job: Job) -> dict[str, float]:
        """Bring the learner to the job's number of updates, with targets of the weights published last."""
        config, trainer, replay = self.config, self._training(), self._replaying()
        replay.fill()
        start = trainer.learner.step
        trainer.buffer.clear()  # what follows depends on the saved state alone
        trainer.generator.manual_seed(derive(config.seed, "train", start))
        updater = BellmanUpdater(config, derive(config.seed, "targets", start))
        updater.use(trainer.folder.load(config.learner, config.device, trainer.version))
        draws = torch.Generator(config.device).manual_seed(derive(config.seed, "draws", start))
        sums: dict[str, float] = {}
        owed = 0.0
        while (left := job.target - trainer.learner.step) > 0:
            examples, _ = updater.step(replay.sample(config.updater.rows, draws), replay.detector, trainer.version)
            trainer.push(examples)
            owed += config.updater.rows * config.trainer.reuse / config.trainer.batch
            updates = min(int(owed), left)
            owed -= updates
            found = trainer.step(updates) if updates else {}
            sums = {name: sums.get(name, 0.0) + updates * value for name, value in found.items()} if found else sums
        if trainer.learner.step > start:
            trainer.publish()
            trainer.save()
        count = max(1, trainer.learner.step - start)
        means = {name: value / count for name, value in sums.items()}
        return {**means, "updates": float(trainer.learner.step), "weights": float(trainer.version)}

    def _evaluate(self, job: Job) -> dict[str, float]:
        evaluator = Evaluator(self.config, self._collecting().world)
        evaluator.sync()
        self.evaluation = evaluator.step()
        rows = self._collecting().store.rows()
        return {**self.evaluation.metrics(), "episode": float(rows[-1].id if rows else 0)}

    # --- parts ------------------------------------------------------------------------------------------------------

    def _has_labels(self) -> bool:
        """Tell whether a person, where one is asked, has said what success and failure look like."""
        teacher = Teacher(self.config)
        is_ready = teacher.is_ready
        teacher.close()
        return is_ready

    def _collecting(self) -> Collector:
        self._collector = self._collector or Collector(self.config)
        return self._collector

    def _replaying(self) -> Replay:
        self._replay = self._replay or Replay(self.config)
        return self._replay

    def _training(self) -> Trainer:
        self._trainer = self._trainer or Trainer(self.config)
        return self._trainer

    def _note(self, job: Job, metrics: Mapping[str, float], seconds: float) -> None:
        """Write the job down and say a line about it."""
        versions = {"detector": self._replay.detector} if self._replay and job.kind == "train" else {}
        record: dict[str, Any] = {"kind": job.kind, "round": job.round, "number": job.number, "seconds": seconds}
        evaluation = self.evaluation.plain() if self.evaluation else None
        controller = self.controller.state_dict()
        self.folder.save(record | versions | dict(metrics), controller=controller, evaluation=evaluation)
        shown = "  ".join(f"{name} {metrics[name]:.4g}" for name in SHOWN if name in metrics)
        self.say(f"round {job.round}  {job.kind} {job.number}  {shown}  ({seconds:.1f} s)")
