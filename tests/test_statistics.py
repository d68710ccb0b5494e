"""Statistics of numbers that can be computed by hand."""

import numpy as np
import pytest

from polytask.statistics import bootstrap, iqm, mean


def test_iqm_averages_the_middle_half():
    scores = np.array([[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 100.0]])  # sorted: 0 1 | 2 3 4 5 | 6 100
    assert iqm(scores) == pytest.approx(3.5)


def test_iqm_of_few_scores_is_their_mean():
    assert iqm(np.array([[1.0, 2.0, 6.0]])) == pytest.approx(3.0)  # 3 // 4 = 0 scores are cut at each end


def test_statistics_take_leading_axes():
    scores = np.arange(24.0).reshape(2, 3, 4)
    assert mean(scores) == pytest.approx([5.5, 17.5])
    assert iqm(scores) == pytest.approx([5.5, 17.5])


def test_interval_of_constant_tasks_has_no_width():
    # Each task always has the same score. The mean would vary only with resampling across tasks, which would be wrong.
    scores = np.tile([0.0, 1.0, 0.5], (10, 1))
    assert bootstrap(scores) == (0.5, 0.5)


def test_interval_agrees_with_normal_theory():
    scores = np.random.default_rng(1).normal(3.0, 2.0, size=(400, 1))
    half = 1.96 * scores.std() / np.sqrt(400)
    low, high = bootstrap(scores, resamples=4000)
    assert low == pytest.approx(scores.mean() - half, abs=0.1 * half)
    assert high == pytest.approx(scores.mean() + half, abs=0.1 * half)


def test_more_tasks_narrow_the_interval_of_their_mean():
    scores = np.random.default_rng(2).random((50, 16))
    one, many = bootstrap(scores[:, :1]), bootstrap(scores)
    assert many[1] - many[0] == pytest.approx((one[1] - one[0]) / 4, rel=0.25)


def test_wider_level_contains_narrower():
    scores = np.random.default_rng(3).random((30, 2))
    narrow, wide = bootstrap(scores, level=0.5), bootstrap(scores, level=0.99)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_interval_is_reproducible():
    scores = np.random.default_rng(4).random((20, 3))
    assert bootstrap(scores, iqm) == bootstrap(scores, iqm)
    assert bootstrap(scores, iqm) != bootstrap(scores, iqm, seed=1)
