"""Use an episode collected for one task as data of other tasks (MT-Opt, arXiv 2104.08212, section on data sharing).

An episode e collected for task i becomes { e with the rewards of task k : k in K(i) }, successes and failures alike:

    orig    K(i) = {i}                          no sharing
    all     K(i) = all tasks                    unrelated episodes become failures
    skill   K(i) = tasks of the same skill      MT-Opt's choice
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from polytask.errors import require_known
from polytask.mtopt.config.learning import STRATEGIES
from polytask.mtopt.records import TaskInfo

# Returns the verdicts on a task of the episodes in (after, until], such as `TaskReplay._rewards`.
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
