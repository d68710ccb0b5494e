"""Keep updaters and trainer busy: draws go to updaters, their examples to the trainer, and nobody waits for weights."""

from __future__ import annotations

from collections import deque
from typing import Any

from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.runtime.ray.crew import Crew, Post
from polytask.mtopt.runtime.ray.transfer import Newest

AHEAD = 2  # batches of examples for each updater that may be under way or wait for the trainer


class Learning:
    """Passes references between replay, updaters and trainer."""

    def __init__(self, config: RunConfig, crew: Crew, newest: Newest) -> None:
        """Start without examples; posts are added by `staff`."""
        self.config, self.crew, self.newest = config, crew, newest
        self.detector = ""  # whose verdicts the last draw had
        self._replay: Post
        self._trainer: Post
        self._idle: deque[Post] = deque()  # updaters
        self._ready: deque[Any] = deque()  # references of examples that the trainer has not got
        self._under_way = 0  # draws on their way to become examples
        self._is_feeding = False
        self._updates = self._target = 0
        self._owed = 0.0  # updates that the examples which were fed allow
        self._sums: dict[str, float] = {}
        self._lags: list[float] = []

    def staff(self, replay: Post, updaters: list[Post], trainer: Post) -> None:
        """Say who does it."""
        self._replay, self._trainer = replay, trainer
        self._idle.extend(updaters)

    def run(self, target: int) -> dict[str, float]:
        """Bring the learner to a number of updates, publish, save, and return means over the updates."""
        self._target, self._sums, self._lags = target, {}, []
        self.newest.look()
        self._updates = start = self.crew.ask(self._trainer, lambda actor: actor.updates.remote())
        released = self._release()
        self.newest.look()
        means = {name: value / max(1, target - start) for name, value in self._sums.items()}
        lag = sum(self._lags) / len(self._lags) if self._lags else 0.0
        return {**means, "lag": lag, **released}

    def clear(self) -> None:
        """Forget examples that wait: the buffers have changed."""
        self._ready.clear()

    def _release(self) -> dict[str, float]:
        """Train and have the weights published; a trainer that takes over at the end has to make up for updates."""
        while True:
            while self._updates < self._target or self._is_feeding:
                self._draw()
                self._feed()
                self.crew.step()
            asked: dict[str, float] = self.crew.ask(self._trainer, lambda actor: actor.release.remote(self._target))
            self._updates = int(asked["updates"])
            if self._updates >= self._target:
                return asked

    # --- from a draw to examples --------------------------------------------------------------------------------------

    def _draw(self) -> None:
        """Give idle updaters work, unless enough lies ready."""
        limit = AHEAD * self.config.ray.updaters
        while self._idle and len(self._ready) + self._under_way < limit:
            self._under_way += 1
            self._sample(self._idle.popleft())

    def _sample(self, updater: Post) -> None:
        self.crew.call(
            self._replay,
            lambda actor: actor.sample.options(num_returns=2).remote(),
            lambda detector, drawn: self._compute(updater, detector, drawn),
            lambda: self._lose(updater),
        )

    def _compute(self, updater: Post, detector: str, drawn: Any) -> None:
        self.detector = detector
        parcels = self.newest.parcels
        self.crew.call(
            updater,
            lambda actor: actor.step.options(num_returns=2).remote(drawn, detector, parcels),
            lambda metrics, examples: self._keep(updater, metrics, examples),
            lambda: self._lose(updater),
        )

    def _keep(self, updater: Post, metrics: dict[str, float], examples: Any) -> None:
        self._under_way -= 1
        self._idle.append(updater)
        self._ready.append(examples)
        self._lags.append(self.newest.lag(metrics["weights"]))

    def _lose(self, updater: Post) -> None:
        self._under_way -= 1
        self._idle.append(updater)

    # --- from examples to updates -------------------------------------------------------------------------------------

    def _feed(self) -> None:
        """Hand the trainer the next examples, with as many updates as they allow."""
        left = self._target - self._updates
        if self._is_feeding or not self._ready or left <= 0:
            return
        examples, trainer = self._ready.popleft(), self.config.trainer
        self._owed += self.config.updater.rows * trainer.reuse / trainer.batch
        updates = min(int(self._owed), left)
        self._owed -= updates
        self._is_feeding = True
        self.crew.call(
            self._trainer,
            lambda actor: actor.feed.remote(examples, updates),
            lambda metrics, _: self._count(metrics, updates),
            self._resume,
        )

    def _count(self, metrics: dict[str, float], updates: int) -> None:
        self._is_feeding = False
        self._updates = int(metrics["updates"])
        if updates:
            for name, value in metrics.items():
                self._sums[name] = self._sums.get(name, 0.0) + updates * value

    def _resume(self) -> None:
        """Ask a new trainer how far the state goes that it found; it has an empty train buffer."""

        def go_on(updates: int, _: Any) -> None:
            self._updates, self._is_feeding = updates, False
            self._sums, self._owed = {}, 0.0

        self.crew.call(self._trainer, lambda actor: actor.updates.remote(), go_on, self._resume)
