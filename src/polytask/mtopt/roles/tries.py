"""Count how often each policy attempted a task, and how often it succeeded by verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from polytask.mtopt.detector import Judge
from polytask.mtopt.policy_names import SCRIPTED, acts_as
from polytask.mtopt.records import TaskInfo
from polytask.mtopt.roles.orders import OWN, SCRIPT
from polytask.mtopt.store import EpisodeStore


@dataclass(frozen=True)
class Tries:
    """Attempts at a task, and successes by verdict."""

    episodes: int = 0
    successes: int = 0

    @property
    def rate(self) -> float:
        """Return the share of successes."""
        return self.successes / self.episodes if self.episodes else 0.0


def count_tries(
    store: EpisodeStore, tasks: Sequence[str], known: Mapping[str, TaskInfo], judge: Judge, after: int = 0
) -> dict[str, dict[str, Tries]]:
    """Count attempts and successes of each task by what acted: a script, its own policy, or another task's policy.

    A script acts the same for every task, and a policy acts the same for every commanded task as long as it acts for
    the same one. So their episodes count for all tasks of the skill.

    Args:
        store: The log.
        tasks: The tasks to count for.
        known: All tasks of the run.
        judge: Source of the verdicts; people's labels outrank it.
        after: Episodes of learned policies count only after this one; those of scripts always count.
    """
    found: dict[str, dict[str, Tries]] = {}
    for task in tasks:
        counted: dict[str, Tries] = {}
        for one in store.tally(task, judge.version, judge.threshold(task), after=after):
            if one.commanded not in known or known[one.commanded].skill != known[task].skill:
                continue
            source = SCRIPT
            if not one.policy.startswith(SCRIPTED):
                if not one.is_later:
                    continue
                acted_for = acts_as(one.policy) or one.commanded
                source = OWN if acted_for == task else acted_for
            before = counted.get(source, Tries())
            counted[source] = Tries(before.episodes + one.episodes, before.successes + one.successes)
        found[task] = counted
    return found
