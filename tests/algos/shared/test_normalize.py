"""Per-task statistics, compared with references computed by hand and in float64."""

from __future__ import annotations

import math

import pytest
import torch
from torch.testing import assert_close

from polytask.algos.shared.normalize import FixedScale, SharedNormalizer, TaskNormalizer, standardize, task_moments
from polytask.nets.task_axes import task_axes
from polytask.nets.task_code import one_hot

TASK = torch.tensor([0, 0, 1])


def test_one_hot() -> None:
    assert one_hot(torch.tensor([2, 0]), 3).tolist() == [[0, 0, 1], [1, 0, 0]]


def test_moments_by_hand() -> None:
    x = torch.tensor([[[1.0], [3.0], [10.0]], [[5.0], [7.0], [20.0]]])  # (T=2, N=3, D=1)
    rows, mean, variance = task_moments(x, TASK, 3)
    assert rows.tolist() == [4, 2, 0]
    assert mean.tolist() == [[4], [15], [0]]
    assert variance.tolist() == [[5], [25], [0]]


def test_worlds_that_do_not_count_are_left_out() -> None:
    generator, counted = torch.Generator().manual_seed(0), torch.tensor([True, False, True, True])
    x, task = torch.randn(5, 4, 2, generator=generator), torch.tensor([0, 0, 0, 1])
    assert_close(task_moments(x, task, 2, counted), task_moments(x[:, counted], task[counted], 2))
    assert_close(standardize(x[..., 0], task, 2, counted)[:, counted], standardize(x[:, counted, 0], task[counted], 2))
    for kind in (lambda: TaskNormalizer(2, 2), lambda: SharedNormalizer(2)):
        some, rest = kind(), kind()
        some.update(x, task, counted)
        rest.update(x[:, counted], task[counted])
        assert_close(some.state_dict(), rest.state_dict())


def test_batches_merge_to_the_statistics_of_all_rows() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 3, 4, generator=generator) * torch.tensor([1.0, 2.0, 5.0, 0.1]) + 3
    normalizer = TaskNormalizer(2, 4)
    normalizer.update(x[:1], TASK)
    normalizer.update(x[1], TASK)  # a batch without a time axis
    normalizer.update(x[2:], TASK)
    for k in range(2):
        rows = x[:, k == TASK].reshape(-1, 4).double()
        assert_close(normalizer.mean[k], rows.mean(0))
        assert_close(normalizer.variance[k], rows.var(0, correction=0), rtol=1e-6, atol=0)
        assert normalizer.count[k] == len(rows)


def test_earlier_rows_lose_weight_by_the_decay() -> None:
    normalizer = TaskNormalizer(1, 1, decay=0.5)
    task = torch.zeros(4, dtype=torch.int64)
    normalizer.update(torch.tensor([[0.0], [0.0], [4.0], [4.0]]), task)
    normalizer.update(torch.tensor([[10.0], [10.0], [10.0], [10.0]]), task)
    assert normalizer.count.item() == 6  # half of four rows, and four
    assert normalizer.mean.item() == pytest.approx((2 * 2 + 4 * 10) / 6)
    squares = (1 * 0**2 + 1 * 4**2 + 4 * 10**2) / 6
    assert normalizer.variance.item() == pytest.approx(squares - (44 / 6) ** 2)


def test_small_spread_on_a_large_offset_survives_many_batches() -> None:
    normalizer = TaskNormalizer(1, 1)
    task = torch.zeros(2, dtype=torch.int64)
    for _ in range(1000):
        normalizer.update(torch.tensor([[[1000.0], [1000.125]]]).expand(50, 2, 1), task)
    assert normalizer.mean.item() == pytest.approx(1000.0625, rel=1e-12)
    assert normalizer.variance.item() == pytest.approx(0.0625**2, rel=1e-9)


def test_task_without_rows_is_left_alone() -> None:
    normalizer = TaskNormalizer(2, 1)
    normalizer.update(torch.tensor([[4.0], [6.0]]), torch.tensor([0, 0]))
    x = torch.tensor([[7.0], [7.0]])
    assert_close(normalizer.normalize(x, torch.tensor([0, 1])), torch.tensor([[2.0], [7.0]]))


def test_denormalize_inverts_normalize_within_the_clip() -> None:
    normalizer = TaskNormalizer(2, 1, clip=10.0)
    normalizer.update(torch.tensor([[1.0], [5.0], [100.0]]), TASK)
    x = torch.tensor([[2.0], [-1.0]])
    task = torch.tensor([0, 0])
    assert_close(normalizer.denormalize(normalizer.normalize(x, task), task), x)


def test_entries_of_a_feature_that_was_constant_are_clipped() -> None:
    normalizer = TaskNormalizer(1, 1, clip=10.0)
    task = torch.zeros(2, dtype=torch.int64)
    normalizer.update(torch.ones(2, 1), task)
    assert normalizer.normalize(torch.tensor([[1.0], [1.5]]), task).tolist() == [[0], [10]]


def test_entries_that_vary_less_than_the_floor_are_divided_by_the_floor() -> None:
    normalizer = TaskNormalizer(1, 2, min_std=0.5)
    task = torch.zeros(2, dtype=torch.int64)
    normalizer.update(torch.tensor([[1.0, 1.0], [1.0002, 5.0]]), task)  # standard deviations 1e-4 and 2
    x = torch.tensor([[1.5001, 5.0]])
    seen = normalizer.normalize(x, task[:1])
    assert_close(seen, torch.tensor([[1.0, 1.0]]))
    assert_close(normalizer.denormalize(seen, task[:1]), x)


def test_a_floor_changes_no_bit_of_entries_above_it() -> None:
    plain, floored = TaskNormalizer(2, 1), TaskNormalizer(2, 1, min_std=1e-3)
    x = torch.tensor([[1.0], [5.3], [100.0]])
    for each in (plain, floored):
        each.update(x, torch.tensor([0, 0, 0]))
    assert_close(floored.normalize(x, TASK), plain.normalize(x, TASK), rtol=0, atol=0)


def test_standardize_gives_each_task_zero_mean_and_unit_deviation() -> None:
    x = torch.tensor([[1.0, 3.0, -100.0], [5.0, 7.0, 300.0]])  # (T=2, N=3)
    root = math.sqrt(5)
    expected = torch.tensor([[-3 / root, -1 / root, -1], [1 / root, 3 / root, 1]])
    assert_close(standardize(x, TASK, 2), expected)


def test_standardize_turns_a_constant_task_into_zeros() -> None:
    assert standardize(torch.full((2, 3), 0.7), TASK, 2).tolist() == [[0, 0, 0], [0, 0, 0]]


def test_state_survives_a_round_trip() -> None:
    normalizer, other = TaskNormalizer(2, 1), TaskNormalizer(2, 1)
    normalizer.update(torch.tensor([[1.0], [5.0], [100.0]]), TASK)
    other.load_state_dict(normalizer.state_dict())
    assert_close(other.mean, normalizer.mean, rtol=0, atol=0)
    assert_close(other.variance, normalizer.variance, rtol=0, atol=0)


def test_shared_statistics_are_those_of_all_rows_together() -> None:
    norm = SharedNormalizer(1, clip=1.2)
    task = torch.tensor([0, 0, 1])
    norm.update(torch.tensor([[[0.0], [0.0], [3.0]], [[1.0], [1.0], [1.0]]]), task)
    assert norm.mean.tolist() == [[1.0]]
    assert norm.variance.tolist() == [[1.0]]  # (1 + 1 + 4) / 6
    x = torch.tensor([[0.0], [1.0], [4.0]])
    assert_close(norm.normalize(x, task), torch.tensor([[-1.0], [0.0], [1.2]]))
    assert_close(norm.normalize(x, task), norm.normalize(x, 1 - task), rtol=0, atol=0)
    assert_close(norm.denormalize(norm.normalize(x[:2], task[:2]), task[:2]), x[:2])
    assert task_axes(norm) == {}


def test_fixed_scales_multiply_and_clip_and_learn_nothing() -> None:
    norm = FixedScale((2.0, 0.5), clip=3.0)
    x, task = torch.tensor([[1.0, 1.0], [2.0, -10.0]]), torch.tensor([0, 1])
    norm.update(x, task)
    assert norm.normalize(x, task).tolist() == [[2.0, 0.5], [3.0, -3.0]]
    assert norm.state_dict() == {}
