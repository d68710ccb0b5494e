"""The order of the worlds in the buffers of an environment.

Outside, worlds are sorted by task. Inside, the worlds of a group must be contiguous rows, and a group may have tasks
that are not neighbours. If both orders are the same, nothing is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from polytask.envs.domain import Buffers, WorldGroup
from polytask.types import Step


@dataclass(frozen=True)
class RowOrder:
    """Which world each row of the buffers belongs to.

    Attributes:
        task: Task of each row. (N,)
        world: World of each row; None if rows and worlds have the same order. (N,)
        row: Row of each world; None likewise. (N,)
    """

    task: Tensor
    world: Tensor | None = None
    row: Tensor | None = None

    @classmethod
    def of(cls, groups: Sequence[WorldGroup], tasks: Sequence[str], task: Tensor) -> RowOrder:
        """Find the order of some groups.

        Args:
            groups: The groups, in the order of their rows.
            tasks: Names of all tasks.
            task: Task of each world, sorted. (N,)
        """
        parts = [part for group in groups for part in group.tasks]
        numbers = torch.tensor([tasks.index(part.task.name) for part in parts])
        counts = torch.tensor([part.worlds.stop - part.worlds.start for part in parts])
        of_row = torch.repeat_interleave(numbers, counts).to(task.device)
        if torch.equal(of_row, task):
            return cls(task)
        row = torch.argsort(of_row, stable=True)
        return cls(of_row, world=torch.argsort(row), row=row)

    @property
    def is_sorted(self) -> bool:
        """Whether the rows are in the order of the worlds."""
        return self.row is None

    def in_rows(self, per_world: Tensor) -> Tensor:
        """Bring a tensor with one entry per world (N, ...) into the order of the rows."""
        return per_world if self.world is None else per_world[self.world]

    def in_worlds(self, per_row: Tensor) -> Tensor:
        """Bring a tensor with one entry per row (N, ...) into the order of the worlds."""
        return per_row if self.row is None else per_row[self.row]

    def publish(self, buffers: Buffers, step: Step | None = None) -> Step:
        """Return the result of the last step in the order of the worlds; overwrite the tensors of `step`, if given."""
        names = [each.name for each in fields(Step)]
        if step is None:
            return Step(**{name: self.in_worlds(getattr(buffers, name)) for name in names})
        if self.row is not None:
            for name in names:
                torch.index_select(getattr(buffers, name), 0, self.row, out=getattr(step, name))
        return step
