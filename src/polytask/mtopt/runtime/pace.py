"""How many updates new examples allow, and the means of the metrics over these updates."""

from __future__ import annotations

from collections.abc import Mapping

from polytask.mtopt.config.run import RunConfig


class UpdatePace:
    """Counts examples and updates, so that an example is drawn `trainer.reuse` times on average."""

    def __init__(self, config: RunConfig) -> None:
        """Start without examples and updates."""
        self._per_step = config.updater.rows * config.trainer.reuse / config.trainer.batch
        self._owed = 0.0  # updates that the examples so far allow
        self._sums: dict[str, float] = {}

    def begin(self) -> None:
        """Start new means; updates that earlier examples allow remain."""
        self._sums = {}

    def allow(self, left: int) -> int:
        """Count the examples of one more step of an updater; return the updates to make now, at most `left`."""
        self._owed += self._per_step
        updates = min(int(self._owed), left)
        self._owed -= updates
        return updates

    def add(self, metrics: Mapping[str, float], updates: int) -> None:
        """Add the mean metrics of some updates, weighted by their number."""
        for name, value in metrics.items():
            self._sums[name] = self._sums.get(name, 0.0) + updates * value

    def means(self, updates: int) -> dict[str, float]:
        """Return the means over this number of updates."""
        return {name: value / max(1, updates) for name, value in self._sums.items()}
