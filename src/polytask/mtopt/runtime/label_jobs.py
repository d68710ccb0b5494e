"""The jobs that make labels, detectors and verdicts. Each opens the store, works on what is in it, and closes it.

A kill can interrupt a job when it has added some labels. So that the log is the same as without the kill, `labels`
counts all labels of the source that the store holds after the job, not those that the job has added.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.roles import DetectorTrainer, Grader, Teacher
from polytask.mtopt.roles.tries import Tries, count_tries
from polytask.mtopt.run_tasks import tasks_of
from polytask.mtopt.runtime.base import Metrics
from polytask.mtopt.store import EpisodeStore


class LabelJobs:
    """Runs teacher, detector trainer and grader."""

    def __init__(self, config: RunConfig) -> None:
        """Prepare; nothing is open between jobs."""
        self.config = config

    def is_ready(self) -> bool:
        """Return whether there are labels, or a stand-in can make them."""
        with closing(Teacher(self.config)) as teacher:
            return teacher.is_ready

    def label(self, round_number: int, part: int = 0) -> Metrics:
        """Add the labels of a round, or of a part of the first round."""
        with closing(Teacher(self.config)) as teacher:
            made = teacher.step(round_number, part)
            source = "person" if self.config.labels.who == "person" else "oracle"
            return {**made, "labels": float(sum(teacher.store.label_counts(source).values()))}

    def train_detector(self, version: str) -> Metrics:
        """Train a detector and put it into use."""
        with closing(DetectorTrainer(self.config)) as trainer:
            return trainer.step(version)

    def grade(self, seen: int) -> tuple[Metrics, dict[str, dict[str, Tries]]]:
        """Let the detector in use label all episodes, and remove the verdicts of others.

        Also count attempts and successes after the episode `seen`.
        """
        with closing(Grader(self.config)) as grader:
            last = grader.store.last()  # of those that come meanwhile, some are not graded
            done, version = grader.run(), grader.judge.version
            counts = grader.store.label_counts(f"detector:{version}") if version else {}
            tries = count_tries(grader.store, self.config.learned, tasks_of(self.config), grader.judge, seen)
            # Twelve verdicts an episode for every detector that ever was would outgrow the episodes.
            grader.store.prune_verdicts(version)
            return {**done, "labels": float(sum(counts.values())), "last": float(last)}, tries

    def grade_new(self, stops: Sequence[int] = ()) -> None:
        """Let the detector in use label what it has not labelled: new episodes, or all after the index was rebuilt."""
        with closing(Grader(self.config)) as grader:
            grader.run(stops)

    def last(self) -> int:
        """Return the last episode of the store."""
        with closing(EpisodeStore(self.config.root, self.config.storage)) as store:
            return store.last()
