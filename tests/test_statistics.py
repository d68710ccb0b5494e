"""Statistics of numbers that can be computed by hand, and how often their intervals hold the truth."""

import numpy as np
import pytest

from polytask.statistics import (
    bootstrap,
    difference_interval,
    improvement,
    improvement_interval,
    iqm,
    mean,
    rate_interval,
    run_interval,
    score_interval,
    student_quantile,
    wilson,
)


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


# Runs


def simulated_runs(draw, runs, tasks):
    """Return the success rates (R, K) of runs with good and bad seeds: twenty episodes of each task."""
    luck = draw.normal(0.0, 0.05, (runs, 1)) + draw.normal(0.0, 0.1, (runs, tasks))
    return draw.binomial(20, np.clip(np.linspace(0.05, 0.95, tasks) + luck, 0.0, 1.0)) / 20


def coverage(interval, statistic, runs, tasks, trials):
    """Return how often an interval holds the value that very many runs have."""
    draw = np.random.default_rng(5)
    truth = statistic(simulated_runs(draw, 20_000, tasks))
    found = [interval(simulated_runs(draw, runs, tasks)) for _ in range(trials)]
    return np.mean([low <= truth <= high for low, high in found])


@pytest.mark.parametrize("tasks", [10, 50])
@pytest.mark.parametrize("runs", [5, 10])
def test_intervals_over_runs_hold_the_truth(runs, tasks):
    assert 0.93 <= coverage(run_interval, mean, runs, tasks, 1500) <= 0.97
    assert 0.90 <= coverage(lambda scores: run_interval(scores, iqm, resamples=200), iqm, runs, tasks, 400) <= 0.975


@pytest.mark.parametrize("runs", [2, 3])
def test_two_or_three_runs_are_enough_for_an_interval(runs):
    assert 0.93 <= coverage(run_interval, mean, runs, 10, 1500) <= 0.97


@pytest.mark.parametrize("tasks", [10, 50])
@pytest.mark.parametrize("runs", [5, 10])
def test_resampling_the_tasks_of_runs_apart_does_not_hold_the_truth(runs, tasks):
    # The method for independent episodes. This test says why runs have another one.
    assert coverage(lambda scores: bootstrap(scores, resamples=200), mean, runs, tasks, 300) < 0.85


def test_interval_over_runs_is_students():
    scores = np.array([[0.2, 0.4], [0.4, 0.6], [0.6, 0.8]])  # means 0.3, 0.5, 0.7: standard error 0.2 / sqrt(3)
    half = 4.302653 * 0.2 / np.sqrt(3)
    assert run_interval(scores) == pytest.approx((0.5 - half, 0.5 + half), abs=1e-6)
    assert run_interval(scores, bounds=(0.1, 0.9)) == (0.1, 0.9)


def test_resampled_runs_give_the_same_interval_as_the_formula():
    scores = np.random.default_rng(6).random((6, 4))
    low, high = run_interval(scores, lambda drawn: mean(drawn), resamples=20_000)
    assert (low, high) == pytest.approx(run_interval(scores), abs=0.02 * (high - low))


@pytest.mark.parametrize("freedom, t", [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (9, 2.2622), (30, 2.0423)])
def test_quantiles_of_student(freedom, t):
    assert student_quantile(freedom) == pytest.approx(t, abs=1e-4)


def test_improvement_counts_pairs_of_runs():
    ours, theirs = np.array([[1.0, 0.0], [0.5, 0.0]]), np.array([[0.5, 0.0]])
    # first task: one win and one tie of two pairs, 0.75; second task: only ties, 0.5
    assert improvement(ours, theirs) == pytest.approx(0.625)
    assert improvement(theirs, ours) == pytest.approx(0.375)


def test_interval_of_improvement_holds_a_half_for_equal_settings_and_keeps_a_width_for_clear_ones():
    draw = np.random.default_rng(7)
    found = [
        improvement_interval(simulated_runs(draw, 5, 10), simulated_runs(draw, 5, 10), resamples=200)
        for _ in range(300)
    ]
    assert np.mean([low <= 0.5 <= high for low, high in found]) >= 0.9
    assert improvement_interval(np.ones((3, 2)), np.zeros((4, 2))) == pytest.approx(wilson(1.0, 3))


# Episodes


@pytest.mark.parametrize(
    "rate, count, low, high", [(1.0, 25, 0.8668, 1.0), (0.0, 10, 0.0, 0.2775), (0.5, 20, 0.2993, 0.7007)]
)
def test_wilson(rate, count, low, high):
    assert wilson(rate, count) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize("rates", [[0.5], [0.95], [0.99] * 10, [0.5] * 10, np.linspace(0.0, 1.0, 10)])
def test_intervals_over_episodes_hold_the_truth(rates):
    drawn = np.random.default_rng(8).binomial(20, rates, (2000, len(rates))) / 20
    bounds = [rate_interval(each, 20) for each in drawn]
    assert np.mean([low <= np.mean(rates) <= high for low, high in bounds]) >= 0.91


def test_scores_of_episodes_have_wilsons_interval_only_if_they_are_successes():
    successes = np.ones((25, 1))
    assert score_interval(successes) == pytest.approx(wilson(1.0, 25))
    progress = np.random.default_rng(9).random((25, 2))
    assert score_interval(progress) == bootstrap(progress)


def test_interval_of_a_difference_adds_the_squares():
    assert difference_interval(0.7, (0.4, 0.9), 0.5, (0.2, 0.9)) == pytest.approx((0.2 - 0.5, 0.2 + np.hypot(0.2, 0.3)))
