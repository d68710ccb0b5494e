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
from polytask.mtopt.learning.reservoir import Reservoirs
from polytask.mtopt.learning.sharing import Rewards, impersonate
from polytask.mtopt.records import TaskInfo
from polytask.mtopt.store import Commanded, EpisodeStore
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
            rewards: Returns the verdicts on a task of episodes of the store in (after, until].
            config: How to share.

        Raises:
            UserError: If a learned task or the strategy is unknown.
        """
        self.store, self.buffers, self.tasks, self.rewards = store, buffers, tasks, rewards
        self.config = config or SharingConfig()
        require_tasks(buffers.tasks, tasks)
        # Commanded task -> which learned tasks (K,) use its episodes. An unknown strategy fails here, not later.
        self._uses = {name: self._among(impersonate(self.config.strategy, name, tasks)) for name in tasks}
        # Tasks whose verdicts are sure to come: an episode waits for them. Verdicts of other tasks are used if present.
        self.awaited: Collection[str] = buffers.tasks
        self.restart()

    def restart(self) -> None:
        """Start again before the first episode, because verdicts have changed; held episodes keep their frames."""
        self.last = 0  # id of the last episode that was processed
        # Ids, frames and verdicts (E, K) of the listed episodes, in parts as they came.
        self._listed: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int8]]] = []
        self._reservoirs: Reservoirs | None = None

    def step(self, limit: int = CHUNK) -> StepCounts:
        """Process the next episodes, at most `limit`, in the order of their ids."""
        rows = self.store.commanded(after=self.last, limit=limit)
        if not rows:
            return StepCounts(0, 0, 0, 0, 0)
        number, length = np.array([row.id for row in rows]), np.array([row.length for row in rows])
        uses = np.stack([self._users(row) for row in rows])  # (R, K)
        verdict = self._verdicts(number, uses)
        awaits = uses & self._among(self.awaited) & (verdict == NOT_USED)
        waits = awaits.any(1) & self.config.wait
        read = int(waits.argmax()) if waits.any() else len(rows)
        verdict = np.where(uses, verdict, NOT_USED)[:read].astype(np.int8)
        shared = verdict != NOT_USED
        listed = np.flatnonzero(shared.any(1))
        if len(listed):
            self._listed.append((number[listed], length[listed] + 1, verdict[listed]))
            self._reservoirs = None
        self.last = int(number[read - 1]) if read else self.last
        return StepCounts(read, len(listed), int(shared.sum()), read - len(listed), len(rows) - read)

    def refill(self, turn: int = 0) -> int:
        """Hold the listed episodes whose turn it is; return how many had to be read.

        Args:
            turn: Number of the turn; the same log and turn always give the same episodes.
        """
        if not self._listed:
            self.buffers.drop(self.buffers.episodes)
            return 0
        log, replay = self.reservoirs(), self.buffers.config
        held = log.choose(replay.capacity, turn=turn, refresh=replay.refresh)
        wanted = dict(zip(log.number[held].tolist(), log.verdict[held], strict=True))
        self.buffers.drop([one for one in self.buffers.episodes if one not in wanted])
        missing = [one for one in wanted if one not in self.buffers]
        for start in range(0, len(missing), CHUNK):
            self._read(missing[start : start + CHUNK])
        self.buffers.assign_many(list(wanted), np.stack(list(wanted.values())))
        return len(missing)

    def reservoirs(self) -> Reservoirs:
        """Return the listed episodes, at least one, in order; they are sorted again if some are new."""
        if self._reservoirs is None:
            number, frames, verdict = (np.concatenate(parts) for parts in zip(*self._listed, strict=True))
            self._listed = [(number, frames, verdict)]
            self._reservoirs = Reservoirs(number, frames, verdict)
        return self._reservoirs

    def _among(self, tasks: Collection[str]) -> NDArray[np.bool_]:
        """Return which of the learned tasks (K,) are among these."""
        return np.array([task in tasks for task in self.buffers.tasks])

    def _users(self, row: Commanded) -> NDArray[np.bool_]:
        """Return which of the learned tasks (K,) use an episode."""
        if not row.length:
            return self._among(())
        return self._uses[require_known(f"task of episode {row.id}", row.task, self._uses)]

    def _verdicts(self, number: NDArray[np.int64], uses: NDArray[np.bool_]) -> NDArray[np.int8]:
        """Return the verdicts (R, K) on episodes of the tasks that use one of them; NOT_USED where there is none."""
        found = np.full(uses.shape, NOT_USED, np.int8)
        for column in np.flatnonzero(uses.any(0)).tolist():
            verdicts = self.rewards(self.buffers.tasks[column], self.last, int(number[-1]))
            row = np.searchsorted(number, np.fromiter(verdicts.keys(), np.int64, len(verdicts)))
            found[row, column] = np.fromiter(verdicts.values(), np.int8, len(verdicts))
        return found

    def _read(self, numbers: list[int]) -> None:
        """Read episodes together: one by one, a GPU would wait for every array. `refill` sets their verdicts."""
        episodes = self.store.read_many(numbers, with_outcome=False)
        self.buffers.add_episodes((number, one, {}) for number, one in zip(numbers, episodes, strict=True))
