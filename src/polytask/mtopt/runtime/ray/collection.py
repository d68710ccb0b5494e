"""Keep the collectors busy: orders go out, sequences come back and are stored, and no more wait than memory allows.

Everything happens in answers to calls, so the collectors go on while the driver waits for another job: with
`ray.continuous`, they collect for the next round while this one is labelled, graded and trained on.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.roles import Controller, Job, Order
from polytask.mtopt.runtime.base import Metrics, Stops
from polytask.mtopt.runtime.ray.transfer import CurrentFiles, bytes_in_flight
from polytask.mtopt.runtime.ray.worker_pool import WorkerPool, WorkerSlot

Finished = Callable[[Job, Metrics, float], None]  # receives a job, its metrics and its seconds


@dataclass(frozen=True)
class _Sent:
    """An order on its way."""

    job: Job
    order: Order
    began: float


class Collection:
    """Passes orders to collectors and their sequences to the writer; for the driver's thread."""

    def __init__(
        self, config: RunConfig, pool: WorkerPool, files: CurrentFiles, controller: Controller, finished: Finished
    ) -> None:
        """Start without workers; `connect` sets them.

        Args:
            config: Of the run.
            pool: Of all workers.
            files: Weights and detector that collectors get.
            controller: Issues the jobs, and counts them.
            finished: Is called when a sequence is stored and counted.
        """
        self.config, self.pool, self.files, self.controller = config, pool, files, controller
        self.stops: Stops = ()  # after a signal no further orders go out
        self.lost = 0  # sequences that died with their collector
        self._finished = finished
        self._idle: deque[WorkerSlot] = deque()
        self._writer: WorkerSlot
        self._running = 0  # orders that collectors have
        self._waiting = 0  # bytes of sequences that wait for the writer
        self._largest = 0  # bytes of the largest sequence so far
        self._limit = bytes_in_flight(config)

    def connect(self, collectors: list[WorkerSlot], writer: WorkerSlot) -> None:
        """Set the workers."""
        self._idle.extend(collectors)
        self._writer = writer

    def pump(self) -> None:
        """Give orders to idle collectors, as far as there is work and room."""
        while self._idle and not self.stops and self._has_room():
            job = self._next_job()
            if job is None:
                return
            self._running += 1
            self._send(self._idle.popleft(), _Sent(job, self.controller.order(job), time.monotonic()))

    def _next_job(self) -> Job | None:
        if self.controller.phase == "collect":
            return self.controller.next()
        return self.controller.next_ahead() if self.config.ray.continuous else None

    def _has_room(self) -> bool:
        """Return whether one more sequence fits into memory; there is always room for one."""
        held = self._waiting + self._running * self._largest
        return held + self._largest <= self._limit or held == 0

    def _send(self, collector: WorkerSlot, sent: _Sent) -> None:
        """Send an order to a collector, which is idle again before its sequence is stored."""
        files = self.files.refs

        def collected(metrics: Metrics, sequence: Any) -> None:
            self._running -= 1
            self._idle.append(collector)
            size = int(metrics["bytes"])
            self._waiting, self._largest = self._waiting + size, max(self._largest, size)
            self._enter(sent, metrics, sequence)
            self.pump()

        def lost() -> None:
            self._running -= 1
            self._idle.append(collector)
            self._give_up(sent.job)

        self.pool.call(
            collector, lambda actor: actor.step.options(num_returns=2).remote(sent.order, files), collected, lost
        )

    def _enter(self, sent: _Sent, metrics: Metrics, sequence: Any) -> None:
        """Let the writer, or its successors, store a sequence; only then it counts."""

        def stored(answer: Metrics, _: Any) -> None:
            self._waiting -= int(metrics["bytes"])
            self.controller.finish(sent.job, answer)
            lag = {"lag": self.files.lag(metrics["weights"])}
            self._finished(sent.job, {**metrics, **answer, **lag}, time.monotonic() - sent.began)
            self.pump()

        deaths = self._writer.deaths

        def again() -> None:
            if self._writer.deaths > deaths:
                self._enter(sent, metrics, sequence)
            else:  # the writer lives: the sequence was lost with the collector's machine
                self._waiting -= int(metrics["bytes"])
                self._give_up(sent.job)

        self.pool.call(self._writer, lambda actor: actor.enter.remote(sent.order, sequence), stored, again)

    def _give_up(self, job: Job) -> None:
        self.lost += 1
        self.controller.give_up(job)
        self.pump()
