"""Read the log of episodes in its order, ask for rewards, and fill the buffers of all tasks that learn from each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from polytask.errors import UserError
from polytask.mtopt.config.learning import LogReplayConfig
from polytask.mtopt.learning.buffers import TaskBuffers
from polytask.mtopt.learning.sharing import Rewards, Shared, SharingCounts, impersonate
from polytask.mtopt.records import TaskInfo
from polytask.mtopt.store import EpisodeRow, EpisodeStore


class StepCounts(NamedTuple):
    """What one step did."""

    read: int  # episodes looked at
    added: int  # of those, now in the buffers
    shared: int  # pairs of an episode and a task
    passed: int  # without actions or without any verdict
    waiting: int  # rows of this step that are left for the next: a verdict is missing


class LogReplay:
    """Moves episodes from the store to the buffers."""

    def __init__(
        self,
        store: EpisodeStore,
        buffers: TaskBuffers,
        tasks: Mapping[str, TaskInfo],
        rewards: Rewards,
        config: LogReplayConfig | None = None,
    ) -> None:
        """Start in front of the first episode.

        Args:
            store: The log.
            buffers: What to fill; its tasks are those that are learned.
            tasks: All tasks that episodes may have been collected for.
            rewards: Returns the verdicts on a task of the episodes in (after, until]; it may label them first.
            config: How to share.
        """
        self.store, self.buffers, self.tasks, self.rewards = store, buffers, tasks, rewards
        self.config = config or LogReplayConfig()
        unknown = [name for name in buffers.tasks if name not in tasks]
        if unknown:
            raise UserError(f"'{unknown[0]}' is learned but is none of the tasks: {', '.join(tasks)}")
        # Commanded task -> learned tasks that its episodes count for. An unknown strategy fails here, not later.
        self._learners = {
            name: tuple(task for task in impersonate(self.config.strategy, name, tasks) if task in buffers.tasks)
            for name in tasks
        }
        # Tasks whose verdicts are sure to come, and are waited for; the others' count where they are there.
        self.awaited: Collection[str] = buffers.tasks
        self.last = 0  # id of the last episode that was dealt with
        self.counts = SharingCounts()

    def step(self, limit: int = 1000) -> StepCounts:
        """Deal with the next episodes, at most `limit`, in the order of their ids."""
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
        """Ask again for the verdicts on all episodes that the buffers hold, and return how many episodes changed."""
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
        """Look at all episodes again, but not at those that newer ones have replaced; what is held keeps its frames."""
        self.last = min(self.buffers.episodes) - 1 if self.buffers.has_forgotten else 0

    def state_dict(self) -> dict[str, Any]:
        """Return all that a resumed run needs beside the store."""
        return {"last": self.last, "counts": self.counts.state_dict(), "buffers": self.buffers.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` returned; frames are read from the store."""
        self.last = int(state["last"])
        self.counts.load_state_dict(state["counts"])
        self.buffers.load_state_dict(state["buffers"], self.store.read)

    def _tasks_of(self, row: EpisodeRow) -> tuple[str, ...]:
        """Name the learned tasks that an episode counts for."""
        if not row.length:
            return ()
        if row.task not in self._learners:
            raise UserError(
                f"episode {row.id} was collected for '{row.task}', which is none of {', '.join(self.tasks)}"
            )
        return self._learners[row.task]

    def _asked(self, rows: list[EpisodeRow]) -> list[str]:
        """Name the tasks whose verdicts are needed, in the order of the buffers."""
        needed = {task for row in rows for task in self._tasks_of(row)}
        return [task for task in self.buffers.tasks if task in needed]

    def _add(self, taken: list[tuple[int, list[Shared]]]) -> None:
        """Put episodes into the buffers in this order; those that are held keep their frames."""
        new: list[tuple[int, list[Shared]]] = []
        for number, found in taken:
            if number in self.buffers:
                self._read(new)  # which may push this one out
                new = []
            if number in self.buffers:
                self.buffers.assign(number, _verdicts(found))
            else:
                new.append((number, found))
        self._read(new)

    def _read(self, new: list[tuple[int, list[Shared]]]) -> None:
        """Read episodes that are not held, all at once: one by one, a GPU would wait for each of their arrays."""
        if not new:
            return
        episodes = self.store.read_many([number for number, _ in new], with_outcome=False)
        self.buffers.add_all(
            (number, episode, _verdicts(found)) for (number, found), episode in zip(new, episodes, strict=True)
        )
        for _, found in new:
            self.counts.add(self.config.strategy, found)


def _verdicts(found: list[Shared]) -> dict[str, bool]:
    return {one.task: one.success for one in found}
