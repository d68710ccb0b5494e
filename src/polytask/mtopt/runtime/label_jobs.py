"""The jobs that make labels, detectors and verdicts. Each opens the store, works on what is in it, and closes it."""

from __future__ import annotations

from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.roles import DetectorTrainer, Labeller, Teacher
from polytask.mtopt.roles.tries import Tries, count_tries

Metrics = dict[str, float]


class LabelJobs:
    """Runs teacher, detector trainer and labeller."""

    def __init__(self, config: RunConfig) -> None:
        """Prepare; nothing is open between jobs."""
        self.config = config

    def is_ready(self) -> bool:
        """Return whether there are labels, or a stand-in can make them."""
        teacher = Teacher(self.config)
        is_ready = teacher.is_ready
        teacher.close()
        return is_ready

    def label(self, round_number: int) -> Metrics:
        """Add the labels of a round."""
        teacher = Teacher(self.config)
        metrics = teacher.step(round_number)
        teacher.close()
        return metrics

    def train_detector(self, version: str) -> Metrics:
        """Train a detector and put it into use."""
        trainer = DetectorTrainer(self.config)
        metrics = trainer.step(version)
        trainer.close()
        return metrics

    def grade(self, seen: int) -> tuple[Metrics, dict[str, dict[str, Tries]]]:
        """Let the detector in use label all episodes; also count attempts and successes after the episode `seen`."""
        labeller = Labeller(self.config)
        metrics = labeller.run()
        tries = count_tries(labeller.store, self.config.learned, labeller.judge, seen)
        labeller.close()
        return metrics, tries
