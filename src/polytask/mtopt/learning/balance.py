"""Draw transitions with fixed shares of tasks and outcomes (MT-Opt, arXiv 2104.08212, section on re-balancing).

A batch is drawn in three steps: a task, success or failure, then any transition of that task's episodes with that
outcome. Tasks and outcomes are drawn by systematic sampling, so every batch has each share to within one row. The host
makes the tables when episodes come or go. A draw itself never waits for the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polytask.errors import UserError
from polytask.mtopt.config.learning import ReplayConfig


class DrawnRows(NamedTuple):
    """Where the transitions of a batch are."""

    start: Tensor  # (B,) first frame of the episode
    step: Tensor  # (B,) of the transition in its episode
    cell: Tensor  # (B,) 2 k + s for task k and outcome s
    remaining: Tensor  # (B,) actions of the episode after this one


class DrawTables(NamedTuple):
    """Tables of the draw. Cell 2 k + s holds the transitions of task k whose episodes have the outcome s."""

    share: Tensor  # (2K,) float64, sum of the shares up to and including each cell
    first: Tensor  # (2K,) number of each cell's first transition, where the transitions of all cells are numbered
    steps: Tensor  # (2K,) transitions of each cell
    ends: Tensor  # (M,) number after the last transition of each episode, cell by cell
    start: Tensor  # (M,) frame of the episode's first transition
    length: Tensor  # (M,)

    def draw(self, batch: int, generator: torch.Generator) -> DrawnRows:
        """Draw transitions, sorted by task; the generator is on the device of the tables."""
        device = self.share.device
        uniform = torch.rand(batch + 1, generator=generator, device=device, dtype=torch.float64)
        position = (torch.arange(batch, device=device) + uniform[-1]) / batch  # (B,) evenly spread over [0, 1)
        cell = torch.searchsorted(self.share, position, right=True)  # (B,)
        steps = self.steps[cell]
        number = self.first[cell] + (uniform[:-1] * steps).long().clamp(max=steps - 1)
        entry = torch.searchsorted(self.ends, number, right=True)
        length = self.length[entry]
        step = number - (self.ends[entry] - length)
        return DrawnRows(self.start[entry], step, cell, length - 1 - step)


def draw_tables(
    cells: Sequence[NDArray[np.int64]],
    start: NDArray[np.int64],
    length: NDArray[np.int64],
    config: ReplayConfig,
    device: torch.device,
) -> DrawTables:
    """Make the tables of the draw.

    Args:
        cells: Rows of the episodes in each cell.
        start: First frame of each row's episode.
        length: Actions of each row's episode.
        config: Shares.
        device: Where to draw.

    Raises:
        UserError: If there is no transition.
    """
    steps = np.array([length[rows].sum() for rows in cells], np.int64)
    if not steps.any():
        raise UserError("there is no episode with a verdict to learn from; collect and label some first")
    rows = np.concatenate(cells)
    share = shares(steps.reshape(-1, 2), config).reshape(-1)
    last = np.flatnonzero(share)[-1]
    share = share.cumsum()
    share[last:] = np.inf  # rounding must not send a position to a cell after the last one that has a share
    tables = (share, steps.cumsum() - steps, steps, length[rows].cumsum(), start[rows], length[rows])
    return DrawTables(*(torch.from_numpy(table).to(device) for table in tables))


def shares(steps: NDArray[np.int64], config: ReplayConfig) -> NDArray[np.float64]:
    """Return the share of each task and outcome in a batch, (K, 2), from their transitions; failures come first."""
    count = steps.astype(np.float64)
    total = count.sum(1, keepdims=True)
    task = (total > 0).astype(np.float64) if config.balance_tasks else total
    within = count / np.maximum(total, 1.0)
    if config.success_ratio is not None:
        wanted = np.array([1.0 - config.success_ratio, config.success_ratio])
        has_both = (count > 0).all(1, keepdims=True)
        within = np.where(has_both, wanted, within)
    return task / task.sum() * within
