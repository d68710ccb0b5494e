"""The shares of tasks and outcomes in a batch."""

import numpy as np
import pytest
import torch

from polytask.errors import UserError
from polytask.mtopt.config.learning import ReplayConfig
from polytask.mtopt.learning.balance import draw_tables, shares

CPU = torch.device("cpu")
STEPS = np.array([[90, 10], [5, 10], [10, 0]])


@pytest.mark.parametrize(
    ("balance", "ratio", "wanted"),
    [
        (True, 0.5, [[1 / 6, 1 / 6], [1 / 6, 1 / 6], [1 / 3, 0]]),
        (True, 0.2, [[0.8 / 3, 0.2 / 3], [0.8 / 3, 0.2 / 3], [1 / 3, 0]]),
        (True, None, [[0.9 / 3, 0.1 / 3], [1 / 9, 2 / 9], [1 / 3, 0]]),
        (False, 0.5, [[0.4, 0.4], [0.06, 0.06], [0.08, 0]]),
        (False, None, [[0.72, 0.08], [0.04, 0.08], [0.08, 0]]),
        (True, 1.0, [[0, 1 / 3], [0, 1 / 3], [1 / 3, 0]]),
    ],
)
def test_shares_by_hand(balance, ratio, wanted):
    assert np.allclose(shares(STEPS, ReplayConfig(200, balance, ratio)), wanted)


def test_a_draw_names_episode_step_and_cell():
    """Row 0 succeeds in the first task, row 1 fails in both; the second task has no success."""
    cells = [np.array([1]), np.array([0]), np.array([1]), np.array([], np.int64)]
    tables = draw_tables(cells, np.array([0, 10]), np.array([3, 2]), ReplayConfig(success_ratio=0.5), CPU)
    drawn = tables.draw(400, torch.Generator().manual_seed(0))
    assert torch.bincount(drawn.cell, minlength=4).tolist() == [100, 100, 200, 0]
    assert drawn.cell.tolist() == sorted(drawn.cell.tolist()), "sorted by task"
    rows = set(
        zip(drawn.cell.tolist(), drawn.start.tolist(), drawn.step.tolist(), drawn.remaining.tolist(), strict=True)
    )
    success = {(1, 0, step, 2 - step) for step in range(3)}
    assert rows == success | {(cell, 10, step, 1 - step) for cell in (0, 2) for step in range(2)}


def test_without_transitions_there_is_nothing_to_draw():
    empty = np.array([], np.int64)
    with pytest.raises(UserError, match="no episode with a verdict"):
        draw_tables([empty, empty], empty, empty, ReplayConfig(), CPU)
