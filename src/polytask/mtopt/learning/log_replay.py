"""Read the log of episodes in order, look up their rewards, and fill the buffers of all tasks that learn from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from polytask.errors import require_known
from polytask.mtopt.config.learning import SharingConfig
from polytask.mtopt.learning.buffers import TaskBuffers
from polytask.mtopt.learning.sharing import Rewards, Shared, impersonate
from polytask.mtopt.records import TaskInfo
from polytask.mtopt.store import EpisodeRow, EpisodeStore
from polytask.mtopt.tasks import require_tasks


class StepCounts(NamedTuple):
    """Episodes that one step read."""

    read: int  # episodes
    added: int  # of those, now in the buffers
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
        self.last = 0  # id of the last episode that was processed

    def step(self, limit: int = 1000) -> StepCounts:
        """Process the next episodes, at most `limit`, in the order of their ids."""
        rows = self.store.rows(after=self.last, limit=limit)
        if not rows:
            return StepCounts(0, 0, 0, 0, 0)
        verdicts = {task: self.rewards(task, self.last, rows[-1].id) for task in self._asked(rows)}
        read, last = 0, self.last
        taken: list[tuple[int, list[Shared]]] = []
        for row in rows:
            wanted = self._tasks_of(row)
            found = [Shared(row.id, task, verdicts[task][row.id]) for task in wanted if row.id in verdicts[task]]
            if self.config.wait and any(task in self.awaited and row.id not in verdicts[task] for task in wanted):
                break
            read, last = read + 1, row.id
            if found:
                taken.append((row.id, found))
        self._add(taken)
        self.last = last
        shared = sum(len(found) for _, found in taken)
        return StepCounts(read, len(taken), shared, read - len(taken), len(rows) - read)

    def relabel(self) -> int:
        """Look up the verdicts on all held episodes again, and return how many episodes changed."""
        held = self.buffers.episodes
        if not held:
            return 0
        first, last = min(held) - 1, max(held)
        rows = {row.id: row for row in self.store.rows(after=first) if row.id in self.buffers}
        verdicts = {task: self.rewards(task, first, last) for task in self._asked(list(rows.values()))}
        changed = 0
        for number in held:
            wanted = self._tasks_of(rows[number])
            found = {task: verdicts[task][number] for task in wanted if number in verdicts[task]}
            changed += self.buffers.verdicts(number) != found
            self.buffers.assign(number, found)
        return changed

    def rewind(self) -> None:
        """Start again at the oldest episode that is not replaced yet; held episodes keep their frames."""
        self.last = min(self.buffers.episodes) - 1 if self.buffers.has_forgotten else 0

    def _tasks_of(self, row: EpisodeRow) -> tuple[str, ...]:
        """Return the learned tasks that use an episode."""
        if not row.length:
            return ()
        return self._learners[require_known(f"task of episode {row.id}", row.task, self._learners)]

    def _asked(self, rows: list[EpisodeRow]) -> list[str]:
        """Return the tasks whose verdicts are needed, in the order of the buffers."""
        needed = {task for row in rows for task in self._tasks_of(row)}
        return [task for task in self.buffers.tasks if task in needed]

    def _add(self, taken: list[tuple[int, list[Shared]]]) -> None:
        """Put episodes into the buffers in this order; held episodes keep their frames."""
        new: list[tuple[int, list[Shared]]] = []
        for number, found in taken:
            if number in self.buffers:
                self._read(new)  # this may remove the held episode
                new = []
            if number in self.buffers:
                self.buffers.assign(number, _verdicts(found))
            else:
                new.append((number, found))
        self._read(new)

    def _read(self, new: list[tuple[int, list[Shared]]]) -> None:
        """Read episodes that are not held, all at once: one by one, a GPU would wait for every array."""
        if not new:
            return
        episodes = self.store.read_many([number for number, _ in new], with_outcome=False)
        self.buffers.add_episodes(
            (number, episode, _verdicts(found)) for (number, found), episode in zip(new, episodes, strict=True)
        )


def _verdicts(found: list[Shared]) -> dict[str, bool]:
    return {one.task: one.success for one in found}
