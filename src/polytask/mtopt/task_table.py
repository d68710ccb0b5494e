"""The tasks of a run: an ordered table with spare places, so that a new task needs data and no new network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from polytask.errors import UserError, require_known, shown
from polytask.mtopt.records import TaskInfo

SPARE = 8  # places for tasks that are added later, in a run that does not say otherwise
LONGEST_NAME, LONGEST_SENTENCE = 60, 300  # characters
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class TaskTable(Mapping[str, TaskInfo]):
    """Tasks by name. The place of a task is its index in networks and detectors, and never changes."""

    infos: tuple[TaskInfo, ...]
    slots: int  # places, of which the first are taken

    def __post_init__(self) -> None:
        """Check the names and that all tasks have a place.

        Raises:
            UserError: If a name appears twice, or there are too few places.
        """
        names = [one.name for one in self.infos]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise UserError(f"there are two tasks '{shown(twice[0])}'")
        if len(names) > self.slots:
            raise UserError(
                f"all {self.slots} places for tasks are taken; a new run can have more: task_slots={len(names) + SPARE}"
            )

    def __getitem__(self, name: str) -> TaskInfo:
        """Return a task by name."""
        found = next((one for one in self.infos if one.name == name), None)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, in the order of their places."""
        return (one.name for one in self.infos)

    def __len__(self) -> int:
        """Count the tasks."""
        return len(self.infos)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names, in the order of their places."""
        return tuple(self)

    def index(self, name: str) -> int:
        """Return the place of a task.

        Raises:
            UserError: If there is no such task.
        """
        return self.names.index(require_known("task", name, self.names))

    def require(self, names: Iterable[str]) -> None:
        """Check that all tasks are known.

        Raises:
            UserError: If one is not known.
        """
        require_tasks(names, self.names)

    def with_task(self, info: TaskInfo) -> TaskTable:
        """Return the table with another task in its first free place.

        Raises:
            UserError: If the task cannot be added.
        """
        check_task(info)
        if info.name in self:
            raise UserError(f"there is already a task '{info.name}': {self[info.name].sentence}")
        return TaskTable((*self.infos, info), self.slots)


def check_task(info: TaskInfo) -> None:
    """Check the words of a new task.

    Raises:
        UserError: If one is not possible.
    """
    for what, word in (("name", info.name), ("skill", info.skill)):
        if not _NAME.fullmatch(word) or len(word) > LONGEST_NAME:
            rule = f"small letters and digits with single hyphens between them, at most {LONGEST_NAME} characters"
            raise UserError(f"{what}='{shown(word)}' is not valid; use {rule}, such as wipe-table")
    if not info.sentence.strip() or len(info.sentence) > LONGEST_SENTENCE or not info.sentence.isprintable():
        raise UserError(
            f"sentence='{shown(info.sentence)}' is not valid; say in one line of at most {LONGEST_SENTENCE} characters "
            "what success looks like"
        )


def require_tasks(names: Iterable[str], known: Iterable[str]) -> None:
    """Check that all tasks are known.

    Raises:
        UserError: If one is not known.
    """
    words = tuple(known)
    for name in names:
        require_known("task", name, words)
