"""Train a success detector from the page's labels, in a thread beside the server."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from polytask.errors import UserError
from polytask.files import write_text
from polytask.mtopt.label import queues
from polytask.mtopt.label.judge import (
    Labels,
    TaskFigures,
    all_labels,
    compare,
    fit,
    judge,
    measure,
    newest,
    next_version,
    taught,
)
from polytask.mtopt.label.session import LabelSession, Verdicts

_log = logging.getLogger(__name__)
PATIENCE = 10.0  # s that a stop waits for the thread


class Stopped(Exception):
    """Ends a training that nobody waits for any more."""


@dataclass
class Status:
    """How it goes."""

    state: str = "idle"  # idle, running, done or failed
    message: str = "No detector has been trained yet."
    seconds: float = 0.0  # since it began, or that it took
    version: str | None = None  # of the detector in use
    figures: list[TaskFigures] = field(default_factory=list)


class Training:
    """Trains one detector at a time and hands its verdicts to the session."""

    def __init__(self, session: LabelSession) -> None:
        """Rank by the newest detector, if there is one, whichever the run uses."""
        self.session = session
        self.config = session.config
        self.folder = Path(self.config.detectors or Path(self.config.run_dir) / "detectors")
        self.detector = newest(self.folder, self.config.device)
        self._status = Status()
        self._began = 0.0
        self._lock = Lock()
        self._halt = Event()
        self._thread: Thread | None = None
        if self.detector is not None:
            self._say(version=self.detector.version, figures=self._old_figures(self.detector.version))
            self._begin(self._look, "Judging the episodes…")

    def start(self) -> bool:
        """Begin to train in the background; False when something is under way already."""
        return self._begin(self._train, "Reading the labels…")

    def status(self) -> dict[str, Any]:
        """Say how it goes."""
        with self._lock:
            if self._status.state == "running":
                self._status.seconds = time.monotonic() - self._began
            return asdict(self._status)

    def _begin(self, work: Callable[[], None], message: str) -> bool:
        with self._lock:
            if self._status.state == "running":
                return False
            self._status.state, self._status.message, self._began = "running", message, time.monotonic()
        self._thread = Thread(target=self._run, args=(work,), name="detector", daemon=True)
        self._thread.start()
        return True

    def stop(self) -> None:
        """End what is under way and wait for it: the server is about to go."""
        self._halt.set()
        if self._thread is not None:
            self._thread.join(PATIENCE)

    def _say(self, **changes: Any) -> None:
        with self._lock:
            for name, value in changes.items():
                setattr(self._status, name, value)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
            result = {"message": "", "state": "done"}
        except Stopped:
            result = {"message": "Stopped.", "state": "failed"}
        except UserError as error:
            result = {"message": str(error), "state": "failed"}
        except Exception as error:  # a thread has no caller: whatever happens must reach the page and the log
            _log.exception("the detector's thread failed")
            result = {"message": f"This failed: {error}", "state": "failed"}
        self._say(**result, seconds=time.monotonic() - self._began)

    def _train(self) -> None:
        session, device = self.session, self.config.device
        with session.lock:
            # Of all tasks, not only those on the page: the detector in use grades every task.
            labels = {task: each for task, each in all_labels(session.store).items() if task in session.tasks}
        learned, held = split(labels, self.config.held_out)
        if not taught(learned):
            raise UserError("Label some successes and some failures of a task first; a few dozen of each are a start.")
        count = sum(map(len, learned.values()))

        def progress(share: float) -> None:
            if self._halt.is_set():
                raise Stopped
            self._say(message=f"Training on {count} labels… {share:.0%}")

        detector = fit(session.store, learned, tuple(session.tasks), self.config, next_version(self.folder), progress)
        self._say(message="Measuring…")
        # A detector of other pictures cannot judge these.
        old = self.detector if self.detector and self.detector.views == detector.views else None
        before, after = (measure(each, session.store, held, device) for each in (old, detector))
        figures = compare(learned, held, before, after)
        detector.save(self.folder / f"{detector.version}.pt")
        report = json.dumps([asdict(row) for row in figures], indent=1)
        write_text(self._report(detector.version), report)
        self.detector = detector
        self._say(message="Judging the episodes…", version=detector.version, figures=figures)
        self._look()

    def _look(self) -> None:
        """Judge every labelled episode and a pool of others, for the queues of tasks that have labels."""
        detector, wanted = self.detector, {}
        assert detector is not None
        with self.session.lock:
            for task in self.session.names:
                labels = self.session.labels(task)
                others = queues.new((e for e in self.session.candidates(task) if e not in labels), task)
                wanted[task] = [*labels, *others[: self.config.pool]] if labels else []
        found = judge(detector, self.session.store, wanted, self.config.device)
        self.session.verdicts = Verdicts(detector.version, detector.threshold, found)

    def _report(self, version: str) -> Path:
        return self.folder / f"{version}.json"

    def _old_figures(self, version: str) -> list[TaskFigures]:
        path = self._report(version)
        return [TaskFigures(**row) for row in json.loads(path.read_text())] if path.exists() else []


def split(labels: Labels, share: float) -> tuple[dict[str, dict[int, bool]], dict[str, dict[int, bool]]]:
    """Divide labels into those to learn from and those to measure with.

    An episode is on the same side for every task and for ever, so that no later detector has seen what measures it.
    """
    learned: dict[str, dict[int, bool]] = {}
    held: dict[str, dict[int, bool]] = {}
    for task, values in labels.items():
        chance = queues.scatter_all(list(values), "held out").tolist()
        aside = {episode for episode, lot in zip(values, chance, strict=True) if lot < share}
        learned[task] = {episode: value for episode, value in values.items() if episode not in aside}
        held[task] = {episode: value for episode, value in values.items() if episode in aside}
    return learned, held
