"""The log and the task buffers together: read episodes of the store, draw balanced batches."""

from __future__ import annotations

import torch

from polytask.errors import UserError
from polytask.mtopt.config.run import RunConfig
from polytask.mtopt.detector import Judge
from polytask.mtopt.learning.buffers import TaskBuffers
from polytask.mtopt.learning.learner import needs_pose
from polytask.mtopt.learning.log_replay import LogReplay
from polytask.mtopt.learning.transitions import Transitions
from polytask.mtopt.run_tasks import tasks_of
from polytask.mtopt.store import EpisodeStore


class TaskReplay:
    """Fills the buffers of all learned tasks from the store, by the verdicts of the detector in use."""

    def __init__(self, config: RunConfig) -> None:
        """Open the store and reserve the buffers."""
        self.config = config
        self.store = EpisodeStore(config.root, config.storage)
        self.judge = Judge(config.detectors, "cpu")  # only its version and threshold are needed
        self.buffers = TaskBuffers(
            config.learned,
            config.world.image_shape,
            config.replay,
            config.device,
            needs_pose=needs_pose(config.learner),
            action_size=config.learner.network.action.size,
        )
        self._tasks = tasks_of(config)
        self.log = LogReplay(self.store, self.buffers, self._tasks, self._rewards, config.sharing)
        # The network's one-hot code has an entry for every task, so that a new task needs only new data.
        indices = [self._tasks.index(task) for task in config.learned]
        self._indices = torch.tensor(indices, device=self.buffers.device)

    @property
    def detector(self) -> str:
        """Return the version of the detector whose verdicts the buffers hold."""
        return self.judge.version

    def fill(self, turn: int = 0) -> dict[str, float]:
        """List all new episodes, or all of them after a change of detector, and hold those whose turn it is.

        Args:
            turn: Grows from one training job to the next; see `LogReplay.refill`.
        """
        tasks = tasks_of(self.config)
        if tasks != self._tasks:  # somebody has added one, and episodes may be of it
            self._tasks = tasks
            self.log = LogReplay(self.store, self.buffers, tasks, self._rewards, self.config.sharing)
        if self.judge.sync():
            self.log.restart()
        # For tasks that the detector does not judge, only people's labels count, and most episodes never get one.
        self.log.awaited = self.judge.judged(self.config.learned)
        listed = 0
        while (done := self.log.step()).read:
            listed += done.listed
        return {"listed": float(listed), "read": float(self.log.refill(turn)), "held": float(len(self.buffers))}

    def sample(self, batch: int, generator: torch.Generator) -> Transitions:
        """Draw transitions with the networks' task indices; the generator is on the buffers' device.

        Raises:
            UserError: If no task has a reward.
        """
        refused = self.judge.refused(self.config.learned)
        if refused and not len(self.buffers):
            task, why = next(iter(refused.items()))
            others = len(refused) - 1
            more = f" (and {others} more task{'s' * (others > 1)})" if others else ""
            where = f"run_dir={self.config.run_dir}"
            raise UserError(
                f"no task has a reward: {task}: {why}{more}; `polytask label {where}`, then "
                f"`polytask mtopt relabel {where} train=true`, then go on"
            )
        drawn = self.buffers.sample(batch, generator)
        return drawn._replace(task=self._indices[drawn.task])

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def _rewards(self, task: str, after: int, until: int) -> dict[int, bool]:
        return self.store.rewards(task, self.judge.version, self.judge.threshold(task), after=after, until=until)
