"""Use an episode collected for one task as data of other tasks (MT-Opt, arXiv 2104.08212, section on data sharing).

An episode e collected for task i becomes { e with the rewards of task k : k in K(i) }, successes and failures alike:

    orig    K(i) = {i}                          no sharing
    all     K(i) = all tasks                    unrelated episodes become failures
    skill   K(i) = tasks of the same skill      MT-Opt's choice
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from polytask.errors import require_known
from polytask.mtopt.records import TaskInfo

STRATEGIES = ("orig", "all", "skill")
# Returns the verdicts on a task of the episodes in (after, until], such as `EpisodeStore.rewards`.
Rewards = Callable[[str, int, int], Mapping[int, bool]]


class Shared(NamedTuple):
    """An episode as data of one task."""

    episode: int
    task: str
    success: bool


def impersonate(strategy: str, collected_for: str, tasks: Mapping[str, TaskInfo]) -> tuple[str, ...]:
    """Return the tasks that use an episode, in the order of `tasks`.

    Args:
        strategy: One of `STRATEGIES`.
        collected_for: Task that was commanded.
        tasks: All tasks.

    Raises:
        UserError: If the strategy or the task is unknown.
    """
    require_known("sharing strategy", strategy, STRATEGIES)
    require_known("task", collected_for, tasks)
    if strategy == "orig":
        return (collected_for,)
    skill = tasks[collected_for].skill
    return tuple(name for name, info in tasks.items() if strategy == "all" or info.skill == skill)


@dataclass
class SharingCounts:
    """Episodes that the buffers received, by strategy, task and outcome."""

    episodes: Counter[tuple[str, str, bool]] = field(default_factory=Counter)

    def add(self, strategy: str, shared: Iterable[Shared]) -> None:
        """Count episodes that a strategy shared."""
        self.episodes.update((strategy, one.task, one.success) for one in shared)

    def metrics(self) -> dict[str, int]:
        """Return the counts by name for a log, such as `sharing/skill/lift-any/success`."""
        return {
            f"sharing/{strategy}/{task}/{'success' if success else 'failure'}": count
            for (strategy, task, success), count in sorted(self.episodes.items())
        }

    def state_dict(self) -> dict[str, int]:
        """Return the counts by name."""
        return self.metrics()

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Restore what `state_dict` returned."""
        self.episodes.clear()
        for name, count in state.items():
            _, strategy, task, outcome = name.split("/")
            self.episodes[strategy, task, outcome == "success"] = count


def share(
    strategy: str,
    collected: Iterable[tuple[int, str]],
    tasks: Mapping[str, TaskInfo],
    verdicts: Mapping[str, Mapping[int, bool]],
) -> list[Shared]:
    """List every episode once for each task that uses it and has a verdict on it.

    Args:
        strategy: One of `STRATEGIES`.
        collected: Episodes and their commanded tasks.
        tasks: All tasks, including those that are not learned.
        verdicts: For each learned task, whether an episode is a success.
    """
    return [
        Shared(episode, task, verdicts[task][episode])
        for episode, commanded in collected
        for task in impersonate(strategy, commanded, tasks)
        if episode in verdicts.get(task, {})
    ]
