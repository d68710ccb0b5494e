"""Let an episode collected for one task count for others too (MT-Opt, arXiv 2104.08212, section on data sharing).

An episode e collected for task i becomes { e with the rewards of task k : k in K(i) }, successes and failures alike:

    orig    K(i) = {i}                          no sharing
    all     K(i) = all tasks                    every unrelated episode becomes a failure of all others
    skill   K(i) = tasks of the same skill      MT-Opt's choice
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from polytask.errors import UserError
from polytask.mtopt.records import TaskInfo

STRATEGIES = ("orig", "all", "skill")
# Asks for the verdicts on a task of the episodes in (after, until]: `EpisodeStore.rewards`, or what labels them first.
Rewards = Callable[[str, int, int], Mapping[int, bool]]


class Shared(NamedTuple):
    """An episode as data of one task."""

    episode: int
    task: str
    success: bool


def impersonate(strategy: str, collected_for: str, tasks: Mapping[str, TaskInfo]) -> tuple[str, ...]:
    """Name the tasks that an episode counts for, in the order of `tasks`.

    Args:
        strategy: One of `STRATEGIES`.
        collected_for: Task that was commanded.
        tasks: All tasks.

    Raises:
        UserError: If the strategy or the task is unknown.
    """
    if strategy not in STRATEGIES:
        raise UserError(f"there is no sharing strategy '{strategy}'; there are {', '.join(STRATEGIES)}")
    if collected_for not in tasks:
        raise UserError(f"an episode was collected for '{collected_for}', which is none of {', '.join(tasks)}")
    if strategy == "orig":
        return (collected_for,)
    skill = tasks[collected_for].skill
    return tuple(name for name, info in tasks.items() if strategy == "all" or info.skill == skill)


@dataclass
class SharingCounts:
    """Episodes that the buffers were given, by strategy, task and outcome."""

    episodes: Counter[tuple[str, str, bool]] = field(default_factory=Counter)

    def add(self, strategy: str, shared: Iterable[Shared]) -> None:
        """Count what a strategy made of the log."""
        self.episodes.update((strategy, one.task, one.success) for one in shared)

    def metrics(self) -> dict[str, int]:
        """Return them by name, as a logger wants them, such as `sharing/skill/lift-any/success`."""
        return {
            f"sharing/{strategy}/{task}/{'success' if success else 'failure'}": count
            for (strategy, task, success), count in sorted(self.episodes.items())
        }

    def state_dict(self) -> dict[str, int]:
        """Return what `load_state_dict` takes."""
        return self.metrics()

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on from counts that `state_dict` returned."""
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
    """List every episode once for each task that it counts for and has a verdict of.

    Args:
        strategy: One of `STRATEGIES`.
        collected: Episodes and the tasks that were commanded.
        tasks: All tasks, also those that are not learned.
        verdicts: For each task that is learned, whether an episode is a success.
    """
    return [
        Shared(episode, task, verdicts[task][episode])
        for episode, commanded in collected
        for task in impersonate(strategy, commanded, tasks)
        if episode in verdicts.get(task, {})
    ]
