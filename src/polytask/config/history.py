"""Settings of the training history: which episodes of a run are kept as a data set."""

from __future__ import annotations

from dataclasses import dataclass

from polytask.errors import UserError
from polytask.settings import setting


@dataclass
class HistoryOptions:
    """Which worlds' episodes a run keeps, from its first to its last."""

    worlds: int = setting(
        0,
        "worlds of each task whose training episodes are kept as a data set, in <run>/history (0: none)",
        within=(0, 10**7),
    )
    every: int = setting(1, "with history.worlds: keep every n-th episode of each of these worlds", within=(1, 10**9))

    def check_together(self, prefix: str) -> None:
        """Check that there are episodes to keep some of."""
        if self.every != 1 and self.worlds == 0:
            line = f"{prefix}every={self.every} does not apply: {prefix}worlds=0 keeps no episodes; set it, too"
            raise UserError(line)


@dataclass
class HistoryKey:
    """The key of a command that keeps a training history."""

    history: HistoryOptions = setting(HistoryOptions, "which episodes of training are kept as a data set")
