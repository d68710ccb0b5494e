"""The log and the task buffers together: episodes in, balanced batches out."""

from __future__ import annotations

import torch

from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.learning.buffers import Counts, TaskBuffers, Transitions
from polytask.mtopt.learning.log_replay import LogReplay
from polytask.mtopt.roles.judge import Judge
from polytask.mtopt.store import EpisodeStore
from polytask.mtopt.tasks import TASKS
from polytask.mtopt.world import ALL_TASKS


class Replay:
    """Fills the buffers of all learned tasks from the store, by the verdicts of the detector in use."""

    def __init__(self, config: RunConfig) -> None:
        """Open the store and reserve the buffers."""
        self.config = config
        self.store = EpisodeStore(config.root, config.storage)
        self.judge = Judge(config.detectors, "cpu")  # only its version and threshold are needed
        side = config.world.image_size
        self.buffers = TaskBuffers(config.learned, (side, side), config.replay, config.device)
        self.log = LogReplay(self.store, self.buffers, TASKS, self._rewards, config.sharing)
        # The network's one-hot has a place for every task there is, so that a new one is only new data.
        places = [ALL_TASKS.index(task) for task in config.learned]
        self._places = torch.tensor(places, device=self.buffers.device)

    @property
    def detector(self) -> str:
        """Name the detector whose verdicts the buffers hold."""
        return self.judge.version

    def step(self, limit: int = 1000) -> dict[str, float]:
        """Take new episodes in; after a change of detector, ask again for all verdicts first."""
        changed = 0
        if self.judge.sync():
            changed = self.log.relabel()
            self.log.rewind()  # episodes that were passed by for want of a verdict may have one now
        # Of tasks that no detector was taught only people's labels count, and most episodes will never have one.
        self.log.awaited = self.judge.taught(self.config.learned)
        done = self.log.step(limit)
        return {**{name: float(value) for name, value in done._asdict().items()}, "changed": float(changed)}

    def fill(self) -> dict[str, float]:
        """Take in all that is there."""
        total: dict[str, float] = {}
        while True:
            done = self.step()
            total = {name: total.get(name, 0.0) + value for name, value in done.items()}
            if not done["read"]:
                return total

    def sample(self, batch: int, generator: torch.Generator) -> Transitions:
        """Draw transitions whose tasks count as the networks' do; the generator is on the buffers' device."""
        drawn = self.buffers.sample(batch, generator)
        return drawn._replace(task=self._places[drawn.task])

    def counts(self) -> dict[str, Counts]:
        """Count episodes and transitions of every task by outcome."""
        return self.buffers.counts()

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def _rewards(self, task: str, after: int, until: int) -> dict[int, bool]:
        return self.store.rewards(task, self.judge.version, self.judge.threshold, after=after, until=until)
