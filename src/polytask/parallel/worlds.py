"""The worlds of one rank: a contiguous part of the worlds of every task.

A run with several ranks draws the same random numbers as a single process with all worlds: every rank draws those of
all worlds and keeps its own rows. What the ranks collect is put together in the order of a single process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from polytask.errors import UserError
from polytask.parallel.ranks import Ranks, share_of


class WorldShare:
    """Which of all worlds, sorted by task, belong to this rank.

    Attributes:
        ranks: The ranks.
        total: Number N of all worlds.
        envs_per_task: Number of own worlds of each task; their sum is n.
    """

    def __init__(self, ranks: Ranks, envs_per_task: Sequence[int], device: torch.device) -> None:
        """Share out the worlds.

        Args:
            ranks: The ranks.
            envs_per_task: Number of all worlds of each task.
            device: Device of the tensors to share.

        Raises:
            UserError: If a task has fewer worlds than there are ranks.
        """
        if not ranks.is_alone and min(envs_per_task) < ranks.size:
            fewest = min(envs_per_task)
            raise UserError(
                f"every task needs a world on each of the {ranks.size} ranks, but one has only {fewest} of them; "
                "use more worlds or fewer ranks"
            )
        self.ranks, self.total = ranks, sum(envs_per_task)
        parts = [[share_of(rank, ranks.size, count) for count in envs_per_task] for rank in range(ranks.size)]
        self.envs_per_task = tuple(part.stop - part.start for part in parts[ranks.rank])
        if ranks.is_alone:
            return
        starts = [sum(envs_per_task[:index]) for index in range(len(envs_per_task))]
        worlds = [
            torch.cat(
                [torch.arange(start + part.start, start + part.stop) for start, part in zip(starts, own, strict=True)]
            )
            for own in parts
        ]
        self._width = max(len(own) for own in worlds)  # ranks with fewer worlds send padding, as sizes must agree
        position = torch.empty(self.total, dtype=torch.int64)
        for rank, own in enumerate(worlds):
            position[own] = rank * self._width + torch.arange(len(own))
        self._own = worlds[ranks.rank].to(device)  # (n,) numbers of the own worlds
        self._position = position.to(device)  # (N,) where each world is among the gathered rows

    def own(self, rows: Tensor) -> Tensor:
        """Return the rows of the own worlds: (N, ...) to (n, ...)."""
        return rows if self.ranks.is_alone else rows[self._own]

    def draw(self, numbers: Callable[[int], Tensor]) -> Tensor:
        """Draw random numbers (N, ...) of all worlds with `numbers(N)`; return those of the own worlds (n, ...)."""
        return self.own(numbers(self.total))

    def gather(self, rows: Tensor, axis: int = 0) -> Tensor:
        """Put the own rows of all ranks together: n worlds become N along an axis."""
        if self.ranks.is_alone:
            return rows
        first = rows.movedim(axis, 0)
        padded = first.new_zeros(self._width, *first.shape[1:])
        padded[: len(first)] = first
        return self.ranks.gather(padded)[self._position].movedim(0, axis)

    def gather_into(self, everyone: Sequence[Tensor], own: Sequence[Tensor], axis: int = 0) -> None:
        """Overwrite tensors of all worlds by the own tensors of all ranks, in a single exchange.

        Args:
            everyone: Tensors with N worlds along the axis, and at most one axis after it. In a process that is alone
                these are the tensors of `own`.
            own: Tensors with n worlds; numbers or flags that float32 can hold.
            axis: Axis of the worlds.
        """
        if self.ranks.is_alone:
            return
        columns = [tensor if tensor.dim() > axis + 1 else tensor.unsqueeze(-1) for tensor in own]
        packed = self.gather(torch.cat([column.float() for column in columns], -1), axis)
        parts = packed.split([column.shape[-1] for column in columns], -1)
        for tensor, part in zip(everyone, parts, strict=True):
            tensor.copy_(part.reshape(tensor.shape))
