"""Epochs of minibatches over the rows of a rollout, chunks of rows, and schedules."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from polytask.algos.shared.learner import Learner, adam
from polytask.algos.shared.minibatches import MinibatchUpdates, check_rate_schedule, chunks, scheduled
from polytask.algos.shared.normalize import TaskNormalizer
from polytask.algos.shared.rollout import TaskMajorSampler
from polytask.errors import UserError
from polytask.grads import Backward
from polytask.grads.mean import Mean, MeanConfig

CPU = torch.device("cpu")


class Rows(NamedTuple):
    obs: Tensor
    task: Tensor
    target: Tensor


class Point(nn.Module):
    """Returns one learned number and ignores the input."""

    def __init__(self) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.zeros(1))

    def forward(self, obs: Tensor, task: Tensor) -> Tensor:
        return self.x.expand(len(obs))


def updates_of(seen: list[Tensor]) -> MinibatchUpdates:
    """Build updates on two tasks of two worlds and three steps; the learner records its rows in `seen`."""
    generator, task = torch.Generator().manual_seed(0), torch.tensor([0, 0, 1, 1])

    def loss(net: nn.Module, rows: Rows) -> Tensor:
        seen.append(rows.target)
        return (net(rows.obs, rows.task) - rows.target).square()

    learner = Learner(Backward(Mean(MeanConfig(), 2, CPU, generator), Point(), loss), adam(Point(), 0.0, CPU))
    rows = Rows(torch.full((12, 1), 3.0), task.repeat(3), torch.arange(12.0))
    norm = TaskNormalizer(2, 1)
    norm.mean.fill_(1.0)
    return MinibatchUpdates(rows, TaskMajorSampler(task, 2, 3, 2), {"critic": learner}, norm, generator)


def test_every_epoch_visits_every_row_once_and_shuffles_anew() -> None:
    seen: list[Tensor] = []
    updates = updates_of(seen)
    updates.run(epochs=2)
    assert [len(batch) for batch in seen] == [6] * 4  # two minibatches of three rows of each task
    epochs = torch.cat(seen).view(2, 12)
    assert (epochs.sort().values == torch.arange(12.0)).all()
    assert (epochs[0] != epochs[1]).any()
    last = updates.last()
    assert (last.target == seen[-1]).all() and (last.obs == 2).all()  # 3 minus the normalizer's mean


def test_metrics_average_over_the_updates() -> None:
    updates = updates_of([])
    for _ in range(2):  # the second run must reset the sums of the first
        updates.run(epochs=3)
    metrics = updates.metrics(("a", "b"))
    # Task 0 has the targets 0, 1, 4, 5, 8, 9, task 1 the others; the network returns 0.
    assert_close(metrics["per_task/a/value_loss"], torch.tensor(187 / 6))
    assert_close(metrics["per_task/b/value_loss"], torch.tensor(319 / 6))
    assert_close(metrics["loss/value"], torch.tensor(506 / 12))
    assert_close(metrics["grad_norm/critic"], torch.tensor(11.0))  # 2 * mean target


def test_chunks_cover_all_rows() -> None:
    rows = list(range(10))
    assert [rows[part] for part in chunks(10, 4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_schedules() -> None:
    assert [scheduled(2.0, "linear", progress) for progress in (0.0, 0.25, 1.0, 1.5)] == [2.0, 1.5, 0.0, 0.0]
    assert scheduled(2.0, "constant", 0.9) == 2.0
    with pytest.raises(UserError, match=r"cosine.*constant, linear"):
        check_rate_schedule("cosine")
