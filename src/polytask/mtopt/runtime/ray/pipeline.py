"""Keep updaters and trainer busy: draws go to updaters, their examples to the trainer, and none waits for weights."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.runtime.pace import UpdatePace
from polytask.mtopt.runtime.ray.transfer import CurrentFiles, bytes_in_flight
from polytask.mtopt.runtime.ray.worker_pool import WorkerPool, WorkerSlot

ROW_BYTES = 100  # of an example besides its picture
AHEAD = 2  # batches of examples per updater that may be in progress or wait for the trainer


class TrainingPipeline:
    """Passes references from replay to updaters to trainer."""

    def __init__(self, config: RunConfig, pool: WorkerPool, files: CurrentFiles) -> None:
        """Start without examples and workers; `connect` sets the workers."""
        self.config, self.pool, self.files = config, pool, files
        self.detector = ""  # version that gave the rewards of the last draw
        self._replay: WorkerSlot
        self._trainer: WorkerSlot
        self._idle: deque[WorkerSlot] = deque()  # updaters
        self._ready: deque[Any] = deque()  # references of examples for the trainer
        self._in_progress = 0  # draws that are not examples yet
        self._fill = 0  # counts the changes of the buffers: examples of draws before the last change are dropped
        self._weights = 0.0  # version that the trainer published last
        self._is_feeding = False
        self._updates = self._target = 0
        self._pace = UpdatePace(config)
        self._lags: list[float] = []
        # A batch is drawn with two pictures a row, and leaves its updater with one.
        batch = config.updater.rows * 3 * (3 * math.prod(config.world.image_shape) + ROW_BYTES)
        self._limit = max(1, min(AHEAD * config.ray.updaters, bytes_in_flight(config) // batch))

    def connect(self, replay: WorkerSlot, updaters: list[WorkerSlot], trainer: WorkerSlot) -> None:
        """Set the workers."""
        self._replay, self._trainer = replay, trainer
        self._idle.extend(updaters)

    def run(self, target: int) -> dict[str, float]:
        """Train up to a number of updates, publish, save, and return means over the updates."""
        self._target, self._lags = target, []
        self._pace.begin()
        self.files.refresh()
        self._updates = start = self.pool.ask(self._trainer, lambda actor: actor.updates.remote())
        released = self._release()
        self.files.refresh()
        lag = sum(self._lags) / len(self._lags) if self._lags else 0.0
        return {**self._pace.means(target - start), "lag": lag, **released}

    def clear(self) -> None:
        """Drop examples that wait or are being computed, because the buffers have changed."""
        self._ready.clear()
        self._fill += 1

    def _release(self) -> dict[str, float]:
        """Train and publish the weights; a trainer that replaces a dead one repeats the updates that were lost."""
        while True:
            while self._updates < self._target or self._is_feeding:
                self._draw()
                self._feed()
                self.pool.step()
            released: dict[str, float] = self.pool.ask(self._trainer, lambda actor: actor.release.remote(self._target))
            self._updates = int(released["updates"])
            if self._updates >= self._target:
                return released

    # --- from a draw to examples --------------------------------------------------------------------------------------

    def _draw(self) -> None:
        """Give work to idle updaters, unless enough examples are ready."""
        while self._idle and len(self._ready) + self._in_progress < self._limit:
            self._in_progress += 1
            self._sample(self._idle.popleft())

    def _sample(self, updater: WorkerSlot) -> None:
        fill = self._fill
        self.pool.call(
            self._replay,
            lambda actor: actor.sample.options(num_returns=2).remote(),
            lambda detector, drawn: self._compute(updater, detector, drawn, fill),
            lambda: self._lose(updater),
        )

    def _compute(self, updater: WorkerSlot, detector: str, drawn: Any, fill: int) -> None:
        if fill != self._fill:
            self._lose(updater)
            return
        self.detector = detector
        files = self.files.refs
        self.pool.call(
            updater,
            lambda actor: actor.step.options(num_returns=2).remote(drawn, detector, files),
            lambda metrics, examples: self._keep(updater, metrics, examples, fill),
            lambda: self._lose(updater),
        )

    def _keep(self, updater: WorkerSlot, metrics: dict[str, float], examples: Any, fill: int) -> None:
        self._lose(updater)
        if fill != self._fill:
            return
        self._ready.append(examples)
        self._lags.append(self.files.lag(metrics["weights"]))

    def _lose(self, updater: WorkerSlot) -> None:
        """Let an updater go on: its examples have arrived, or are lost."""
        self._in_progress -= 1
        self._idle.append(updater)

    # --- from examples to updates -------------------------------------------------------------------------------------

    def _feed(self) -> None:
        """Send the next examples to the trainer, with the number of updates that they allow."""
        left = self._target - self._updates
        if self._is_feeding or not self._ready or left <= 0:
            return
        examples, updates = self._ready.popleft(), self._pace.allow(left)
        self._is_feeding = True
        self.pool.call(
            self._trainer,
            lambda actor: actor.feed.remote(examples, updates),
            lambda metrics, _: self._count(metrics, updates),
            self._resume,
        )

    def _count(self, metrics: dict[str, float], updates: int) -> None:
        self._is_feeding = False
        self._updates = int(metrics["updates"])
        if metrics["weights"] != self._weights:
            self._weights = metrics["weights"]
            self.files.refresh()
        if updates:
            self._pace.add(metrics, updates)

    def _resume(self) -> None:
        """Ask a new trainer for the updates of the state that it loaded; its train buffer is empty."""

        def resumed(updates: int, _: Any) -> None:
            self._updates, self._is_feeding = updates, False
            self._pace = UpdatePace(self.config)

        self.pool.call(self._trainer, lambda actor: actor.updates.remote(), resumed, self._resume)
