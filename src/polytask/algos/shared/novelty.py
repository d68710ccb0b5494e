"""A bonus for new places of the hand and the objects, for tasks whose reward does not lead to the object or beyond it.

A place counts from where the thing was at the start of the episode, in cells of 2 cm. A step earns 1 / sqrt(n) for each
thing, where n is the number of steps that its task has spent with the thing in this cell so far, in all worlds in which
the policy acts as this task: a place that only borrowed behaviour reached (`borrowing.py`) is still new. So an object
that rests earns almost nothing; one that is moved somewhere new earns up to 1. The hand counts too, so that it
comes to the object at all. Counts only grow, and the bonus fades away by itself.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

CELL = 0.02  # metres
GRID = (50, 50, 30)  # cells along x, y, z; what is moved further counts as at the edge
ORIGIN = (25, 25, 5)  # the cell of what has not moved


class Novelty:
    """Counts where the hand and the objects of each task have been."""

    def __init__(self, columns: tuple[int, ...], task: Tensor, num_tasks: int) -> None:
        """Start without counts.

        Args:
            columns: For each of M things, where the three numbers of its position begin in an observation.
            task: Task of each world. (N,)
            num_tasks: Number of tasks K.
        """
        things, cells, device = len(columns), math.prod(GRID), task.device
        self._columns = columns
        self._counts = torch.zeros(num_tasks * things * cells, dtype=torch.int32, device=device)
        numbers = task[:, None] * things + torch.arange(things, device=device)
        self._first_cell = numbers * cells  # (N, M)
        self._grid, self._origin = (torch.tensor(each, device=device) for each in (GRID, ORIGIN))
        self._start = torch.zeros(len(task), things, 3, device=device)  # where they were when the episode began
        self._is_new = torch.ones(len(task), dtype=torch.bool, device=device)  # an episode starts next

    @torch.no_grad()
    def bonus(self, obs: Tensor, done: Tensor, counted: Tensor | None = None) -> Tensor:
        """Count a rollout and return the bonus of each step. (T, N)

        Args:
            obs: Observations before the actions. (T, N, O)
            done: Whether an episode ended with the step. (T, N) bool
            counted: Worlds whose steps count as visits; None for all. (N,) bool
        """
        place = torch.stack([obs[..., first : first + 3] for first in self._columns], dim=2)  # (T, N, M, 3)
        shift = place - self._starts(place, done)
        cell = (shift / CELL).round().long() + self._origin
        x, y, z = torch.minimum(cell.clamp_min(0), self._grid - 1).unbind(-1)  # (T, N, M)
        index = self._first_cell + (x * GRID[1] + y) * GRID[2] + z
        visits = torch.ones_like(index, dtype=torch.int32)
        if counted is not None:
            visits *= counted.unsqueeze(-1)
        self._counts.index_add_(0, index.flatten(), visits.flatten())
        # Only worlds that do not count see places without visits.
        return self._counts[index].clamp_min(1).float().rsqrt().sum(dim=-1)

    def restart(self) -> None:
        """Let an episode start next in every world, because all were reset."""
        self._is_new.fill_(True)

    def _starts(self, place: Tensor, done: Tensor) -> Tensor:
        """Return where the things were at the start of each step's episode. (T, N, M, 3)"""
        is_first = torch.cat([self._is_new[None], done[:-1]])
        number = torch.arange(len(done), device=done.device)[:, None]
        begin = torch.where(is_first, number, -1).cummax(dim=0).values  # -1: before this rollout
        within = place.gather(0, begin.clamp_min(0)[..., None, None].expand_as(place))
        starts = torch.where((begin >= 0)[..., None, None], within, self._start)
        self._start.copy_(starts[-1])
        self._is_new.copy_(done[-1])
        return starts

    def state_dict(self) -> dict[str, Any]:
        """Return the counts and the episodes that go on."""
        return {"cells": self._counts.clone(), "starts": self._start.clone(), "is_new": self._is_new.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._counts.copy_(state["cells"])
        self._start.copy_(state["starts"])
        self._is_new.copy_(state["is_new"])
