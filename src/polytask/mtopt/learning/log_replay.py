"""Read the log of episodes in order, look up their rewards, and fill the buffers of all tasks that learn from them.

`step` lists episodes with their verdicts; it reads no pictures. `refill` decides which of the listed episodes the
buffers hold (`reservoir.py`) and reads those that they lack. Where not all fit, every turn replaces a share of them, so
that training goes through the whole log again and again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polytask.errors import require_known
from polytask.mtopt.config.learning import SharingConfig
from polytask.mtopt.learning.buffers import NOT_USED, TaskBuffers
from polytask.mtopt.learning.reservoir import choose
from polytask.mtopt.learning.sharing import Rewards, impersonate
from polytask.mtopt.records import TaskInfo
from polytask.mtopt.store import EpisodeRow, EpisodeStore
from polytask.mtopt.task_table import require_tasks

CHUNK = 4096  # episodes that are read and copied to the device together


class StepCounts(NamedTuple):
    """Episodes that one step read."""

    read: int  # episodes
    listed: int  # of those, episodes that a task learns from
    shared: int  # pairs of an episode and a task
    skipped: int  # episodes without actions or without any verdict
    waiting: int  # episodes left for the next step, because a verdict is missing


class LogReplay:
    """Moves episodes from the store to the buffers."""

    def __init__(
        self,
        store: EpisodeStore,
        buffers: TaskBuffers,
        tasks: Mapping[str, TaskInfo],
        rewards: Rewards,
        config: SharingConfig | None = None,
    ) -> None:
        """Start before the first episode.

        Args:
            store: The log.
            buffers: Buffers to fill; their tasks are the learned ones.
            tasks: All tasks that episodes may have been collected for.
            rewards: Returns the verdicts on a task of the episodes in (after, until].
            config: How to share.

        Raises:
            UserError: If a learned task or the strategy is unknown.
        """
        self.store, self.buffers, self.tasks, self.rewards = store, buffers, tasks, rewards
        self.config = config or SharingConfig()
        require_tasks(buffers.tasks, tasks)
        # Commanded task -> learned tasks that use its episodes. An unknown strategy fails here, not later.
        self._learners = {
            name: tuple(task for task in impersonate(self.config.strategy, name, tasks) if task in buffers.tasks)
            for name in tasks
        }
        # Tasks whose verdicts are sure to come: an episode waits for them. Verdicts of other tasks are used if present.
        self.awaited: Collection[str] = buffers.tasks
        self.restart()

    def restart(self) -> None:
        """Start again before the first episode, because verdicts have changed; held episodes keep their frames."""
        self.last = 0  # id of the last episode that was processed
        self._number: list[int] = []  # of the listed episodes
        self._frames: list[int] = []
        self._verdict: list[NDArray[np.int8]] = []  # (E, K) of each step

    def step(self, limit: int = 1000) -> StepCounts:
        """Process the next episodes, at most `limit`, in the order of their ids."""
        rows = self.store.rows(after=self.last, limit=limit)
        if not rows:
            return StepCounts(0, 0, 0, 0, 0)
        verdicts = {task: self.rewards(task, self.last, rows[-1].id) for task in self._asked(rows)}
        read, last, found = 0, self.last, list[NDArray[np.int8]]()
        for row in rows:
            wanted = self._tasks_of(row)
            if self.config.wait and any(task in self.awaited and row.id not in verdicts[task] for task in wanted):
                break
            read, last = read + 1, row.id
            values = {task: verdicts[task][row.id] for task in wanted if row.id in verdicts[task]}
            if values:
                found.append(np.array([values.get(task, NOT_USED) for task in self.buffers.tasks], np.int8))
                self._number.append(row.id)
                self._frames.append(row.length + 1)
        if found:
            self._verdict.append(np.stack(found))
        self.last = last
        shared = sum(int((one != NOT_USED).sum()) for one in found)
        return StepCounts(read, len(found), shared, read - len(found), len(rows) - read)

    def refill(self, turn: int = 0) -> int:
        """Hold the listed episodes whose turn it is; return how many had to be read.

        Args:
            turn: Number of the turn; the same log and turn always give the same episodes.
        """
        if not self._number:
            self.buffers.drop(self.buffers.episodes)
            return 0
        replay, number = self.buffers.config, np.array(self._number)
        frames, verdict = np.array(self._frames), np.concatenate(self._verdict)
        held = choose(number, frames, verdict, replay.capacity, turn=turn, refresh=replay.refresh)
        wanted = dict(zip(number[held].tolist(), verdict[held], strict=True))
        self.buffers.drop([one for one in self.buffers.episodes if one not in wanted])
        missing = [one for one in wanted if one not in self.buffers]
        for start in range(0, len(missing), CHUNK):
            self._read(missing[start : start + CHUNK])
        self.buffers.assign_many(list(wanted), np.stack(list(wanted.values())))
        return len(missing)

    def _tasks_of(self, row: EpisodeRow) -> tuple[str, ...]:
        """Return the learned tasks that use an episode."""
        if not row.length:
            return ()
        return self._learners[require_known(f"task of episode {row.id}", row.task, self._learners)]

    def _asked(self, rows: list[EpisodeRow]) -> list[str]:
        """Return the tasks whose verdicts are needed, in the order of the buffers."""
        needed = {task for row in rows for task in self._tasks_of(row)}
        return [task for task in self.buffers.tasks if task in needed]

    def _read(self, numbers: list[int]) -> None:
        """Read episodes together: one by one, a GPU would wait for every array. `refill` sets their verdicts."""
        episodes = self.store.read_many(numbers, with_outcome=False)
        self.buffers.add_episodes((number, one, {}) for number, one in zip(numbers, episodes, strict=True))
