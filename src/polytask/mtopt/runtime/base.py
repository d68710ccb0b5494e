"""The common part of the runtimes: start, the order of the jobs, grading, evaluation, and the log.

The work is divided into jobs. After each job, the state in the run's folder is replaced in one step. So a killed run
starts its last job again.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.detector import Judge
from polytask.mtopt.detector.folder import in_use
from polytask.mtopt.roles import Controller, DetectorTrainer, Evaluation, Job
from polytask.mtopt.roles.tries import Tries
from polytask.mtopt.runtime.folder import RunFolder

Metrics = dict[str, float]
Report = Callable[[str], None]  # receives a line about the progress
Stops = Sequence[int]  # signals that asked the process to stop; see `stopping.stop_requests`
# Metrics that are part of a job's line.
SHOWN = ("episodes", "labels", "balanced_accuracy", "switched", "loss", "value", "updates", "success")


class Runtime(ABC):
    """Does the controller's jobs; subclasses decide where the roles run."""

    def __init__(
        self, config: RunConfig, report: Report, folder: RunFolder | None = None, *, is_plan: bool = True
    ) -> None:
        """Begin or continue the run in the configured folder.

        Args:
            config: Settings.
            report: Receives a line about every job.
            folder: The configured one, if it is locked already.
            is_plan: Save the settings as those of the run; False if they are for one command.

        Raises:
            BusyError: If another process has the run.
            UserError: If a setting that must not change within a run differs.
        """
        self.config, self.report = config, report
        self.folder = folder or RunFolder(config.root)
        state = self.folder.begin(config, is_plan=is_plan)
        self.controller = restored_controller(config, state)
        saved = state["evaluation"] if state else None
        self.evaluation = Evaluation.load(saved) if saved else None
        self._jobs: Mapping[str, Callable[[Job], Metrics]] = {
            "label": self._label,
            "detector": self._train_detector,
            "grade": self._grade,
            "train": self._train,
            "evaluate": self._evaluate,
        }

    def _do_next(self) -> bool:
        """Do the next job alone; return False if it needs a person's labels first.

        From labels that a detector has learned from already, no other one is trained: it would differ by chance alone.
        """
        job, began = self.controller.next(), time.monotonic()
        assert job is not None
        if job.kind == "label" and not self._has_labels():
            self.controller.give_up(job)
            return False
        is_known = job.kind == "detector" and self._is_learned()
        metrics = {} if is_known else self._jobs[job.kind](job)
        is_enough = job.kind != "detector" or self._has_rewards()
        if is_enough:
            self.controller.finish(job, metrics)
        elif is_known:
            self.controller.give_up(job)
            return False
        else:
            self.controller.repeat(job)
        self._log(job, metrics, time.monotonic() - began)
        return is_enough

    # --- jobs that are the same everywhere --------------------------------------------------------------------------

    def _train_detector(self, job: Job) -> Metrics:
        version, lesson = f"run-{job.number + 1}", self._lesson()  # labels may come while it is trained
        metrics = self._make_detector(version)
        self.controller.lesson = lesson
        if (used := in_use(self.config.detectors)) != version:
            self.report(f"detector {version} may reward no task, so {used} stays in use")
        return metrics

    def _lesson(self) -> str:
        with closing(DetectorTrainer(self.config)) as trainer:
            return trainer.lesson()

    def _is_learned(self) -> bool:
        """Return whether the run's last detector has learned from the present labels, by the present settings."""
        has_detector = in_use(self.config.detectors) is not None
        is_same = has_detector and bool(self.controller.lesson) and self._lesson() == self.controller.lesson
        if is_same:
            self.report("no label has come since the last detector was trained, so there is no new one")
        return is_same

    def _has_rewards(self) -> bool:
        """Report which tasks the detector may not reward; return False if a person has to label before it may any."""
        judge, learned = Judge(self.config.detectors, "cpu"), self.config.learned
        taught = judge.taught(learned)
        with closing(DetectorTrainer(self.config)) as trainer:
            lacks = trainer.lacking(task for task in learned if task not in taught)
        for task, why in {**judge.refused(learned), **lacks}.items():
            self.report(f"no reward until it has more labels: {task} ({why})")
        return self.config.labels.who != "person" or bool(judge.judged(learned))

    def _grade(self, job: Job) -> Metrics:
        """Let the detector label all episodes, and switch tasks to their own policies."""
        metrics, tries = self._grade_episodes()
        switched = self.controller.compare(tries) if job.round > 0 else []
        rates = {f"tries/{task}/{source}": one.rate for task, each in tries.items() for source, one in each.items()}
        return {**metrics, "switched": float(len(switched)), **rates}

    def _evaluate(self, job: Job) -> Metrics:
        self.evaluation, last = self._measure()
        return {**self.evaluation.metrics(), "episode": float(last)}

    def _log(self, job: Job, metrics: Mapping[str, float], seconds: float) -> None:
        """Save the state after a job, add its record to the log, and report a line about it."""
        record: dict[str, Any] = {"kind": job.kind, "round": job.round, "number": job.number, "seconds": seconds}
        evaluation = self.evaluation.plain() if self.evaluation else None
        controller = self.controller.state_dict()
        self.folder.save(record | self._facts(job) | dict(metrics), controller=controller, evaluation=evaluation)
        shown = "  ".join(f"{name} {metrics[name]:.4g}" for name in SHOWN if name in metrics)
        self.report(f"round {job.round}  {job.kind} {job.number}  {shown}  ({seconds:.1f} s)")

    # --- work that a runtime does in its own way --------------------------------------------------------------------

    @abstractmethod
    def _has_labels(self) -> bool:
        """Return whether there are labels, or a stand-in can make them."""

    @abstractmethod
    def _label(self, job: Job) -> Metrics:
        """Add the labels of a round."""

    @abstractmethod
    def _make_detector(self, version: str) -> Metrics:
        """Train a detector and put it into use."""

    @abstractmethod
    def _grade_episodes(self) -> tuple[Metrics, dict[str, dict[str, Tries]]]:
        """Let the detector in use label all episodes; also count attempts since the round before."""

    @abstractmethod
    def _train(self, job: Job) -> Metrics:
        """Train the learner up to the job's number of updates."""

    @abstractmethod
    def _measure(self) -> tuple[Evaluation, int]:
        """Evaluate the newest weights; also return the last episode of the store."""

    @abstractmethod
    def _facts(self, job: Job) -> dict[str, Any]:
        """Return further entries of a job's record."""


def restored_controller(config: RunConfig, state: Mapping[str, Any] | None) -> Controller:
    """Build the controller of a run, in the state that the run's folder holds."""
    controller = Controller(config)
    if state is not None and state["controller"] is not None:
        controller.load_state_dict(state["controller"])
    return controller
