"""Train a success detector from the page's labels, in a thread beside the server."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from polytask.errors import UserError
from polytask.mtopt.config.learning import MEASURED
from polytask.mtopt.detector import Detector
from polytask.mtopt.detector.folder import figures_path, in_use, newest, next_version, path_of
from polytask.mtopt.detector.labelled import (
    TaskFigures,
    admit,
    compare,
    judge_episodes,
    measure,
    publish,
    train_on_labels,
)
from polytask.mtopt.detector.labels import Labels, labels_by_task, lacking, split, stand_in_counts, teachable
from polytask.mtopt.label.session import LabelSession, Verdicts

_log = logging.getLogger(__name__)
PREFIX = "page"  # of the versions that the page trains
PATIENCE = 10.0  # s that `stop` waits for the thread


class StoppedError(Exception):
    """Ends a training when the server stops."""


@dataclass
class TrainingStatus:
    """The state of the training, as the page shows it."""

    state: str = "idle"  # idle, running, done or failed
    message: str = "No detector has been trained yet."
    share: float | None = None  # of the training that is done, while it runs
    seconds: float = 0.0  # since the start, or in all when it is done
    version: str | None = None  # of the page's detector
    figures: list[TaskFigures] = field(default_factory=list)


class DetectorTraining:
    """Trains one detector at a time and gives its verdicts to the session."""

    def __init__(self, session: LabelSession) -> None:
        """Rank episodes by the newest detector, if there is one, even if the run uses another."""
        self.session = session
        self.config = session.config
        self.folder = Path(self.config.detectors or self.config.root / "detectors").expanduser()
        version = newest(self.folder)
        self.detector = None if version is None else Detector.load(path_of(self.folder, version)).to(self.config.device)
        self._used: Detector | None = None  # in use, where that is not the newest
        self._status = TrainingStatus()
        self._began = 0.0
        self._lock = Lock()
        self._halt = Event()
        self._thread: Thread | None = None
        if self.detector is not None:
            self._update(version=self.detector.version, figures=self._saved_figures(self.detector.version))
            self._begin(self._judge, "Judging the episodes…")

    def start(self) -> bool:
        """Start to train in the background; return False if a training runs already."""
        return self._begin(self._train, "Reading the labels…")

    def in_use(self) -> dict[str, Any] | None:
        """Return the detector whose verdicts are the rewards of training, and the tasks it does not judge and why."""
        found = self._in_use()
        if found is None:
            return None
        reasons = dict.fromkeys(self.session.tasks, "it was taught no success and no failure")
        reasons = {task: why for task, why in reasons.items() if task not in found.taught} | found.refused
        return {"version": found.version, "not_judged": reasons}

    def _in_use(self) -> Detector | None:
        version = in_use(self.folder)
        if version is None:
            return None
        if self.detector is not None and version == self.detector.version:
            return self.detector
        if self._used is None or self._used.version != version:
            self._used = Detector.load(path_of(self.folder, version))
        return self._used

    def status(self) -> dict[str, Any]:
        """Return the state of the training as plain values."""
        with self._lock:
            if self._status.state == "running":
                self._status.seconds = time.monotonic() - self._began
            return asdict(self._status)

    def stop(self) -> None:
        """Stop the training and wait for its thread, before the server ends."""
        self._halt.set()
        if self._thread is not None:
            self._thread.join(PATIENCE)

    # --- the thread -------------------------------------------------------------------------------------------------

    def _begin(self, work: Callable[[], None], message: str) -> bool:
        with self._lock:
            if self._status.state == "running":
                return False
            self._status.state, self._status.message, self._began = "running", message, time.monotonic()
        self._thread = Thread(target=self._run, args=(work,), name="detector", daemon=True)
        self._thread.start()
        return True

    def _update(self, **changes: Any) -> None:
        with self._lock:
            for name, value in changes.items():
                setattr(self._status, name, value)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
            result = {"message": "", "state": "done"}
        except StoppedError:
            result = {"message": "Stopped.", "state": "failed"}
        except UserError as error:
            result = {"message": str(error), "state": "failed"}
        except Exception as error:  # a thread has no caller, so every error must reach the page and the log
            _log.exception("the detector's thread failed")
            result = {"message": f"The training failed: {error}", "state": "failed"}
        self._update(**result, share=None, seconds=time.monotonic() - self._began)

    def _train(self) -> None:
        session, config = self.session, self.config
        with session.lock:
            # Of all tasks, not only those on the page: the detector in use grades every task.
            labels = {task: each for task, each in labels_by_task(session.store).items() if task in session.tasks}
            examples = session.store.examples()
        learned, held = split(labels, MEASURED, examples)
        if not teachable(learned):
            hint = "Label some successes and some failures of a task first; a few dozen of each are a start."
            lacks = {task: lacking(learned[task], held[task]) for task in labels if labels[task]}
            raise UserError(" ".join((hint, *(f"{task}: {lack}." for task, lack in lacks.items()))))
        count = sum(map(len, learned.values()))

        def progress(share: float) -> None:
            if self._halt.is_set():
                raise StoppedError
            self._update(message=f"Training on {count} labels…", share=share)

        settings = replace(config.detector, version=next_version(self.folder, PREFIX), tasks=list(session.tasks))
        settings = replace(settings, slots=session.tasks.slots)
        store, device = session.store, config.device
        detector = train_on_labels(store, learned, settings, device, config.seed, progress, self._in_use())
        self._update(message="Measuring it…", share=None)
        figures = self._measure(detector, learned, held)
        publish(detector, figures, self.folder)
        self.detector = detector
        self._update(message="Judging the episodes…", version=detector.version, figures=figures)
        self._judge()

    def _measure(self, detector: Detector, learned: Labels, held: Labels) -> list[TaskFigures]:
        """Compare a new detector with the one before it, unless that one needs another number of views."""
        store, device, old = self.session.store, self.config.device, self.detector
        before = measure(old, store, held, device) if old is not None and old.views == detector.views else {}
        after = measure(detector, store, held, device)
        admit(detector, after, self.config.detector)
        least = self.config.detector.least_precision
        counts = stand_in_counts(store, learned)
        return compare(learned, held, before, after, detector=detector, least_precision=least, stand_in=counts)

    def _judge(self) -> None:
        """Judge every labelled episode and a pool of others, for the queues of tasks that have labels."""
        detector, wanted = self.detector, {}
        assert detector is not None
        with self.session.lock:
            self.session.candidates.refresh()
            for task in self.session.names:
                labels = self.session.labels(task)
                others = islice(self.session.candidates.shuffled(task, labels), self.config.pool)
                wanted[task] = [*labels, *others] if labels else []
        found = judge_episodes(detector, self.session.store, wanted, self.config.device)
        bounds = {task: detector.threshold_of(task) for task in found}
        self.session.verdicts = Verdicts(detector.version, bounds, found)

    def _saved_figures(self, version: str) -> list[TaskFigures]:
        path = figures_path(self.folder, version)
        try:
            return [TaskFigures(**row) for row in json.loads(path.read_bytes())]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise UserError(f"'{path}' is damaged: it does not hold the figures of a detector; remove it") from error
