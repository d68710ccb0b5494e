"""Means and 95 % intervals, in numpy.

Scores are a matrix of R repetitions by K tasks. Which interval is right depends on what was repeated:

* *Runs.* One run gives the scores of all its tasks, and a lucky seed is lucky in many of them. So whole runs are
  resampled, all tasks of a run together (`run_interval`). With few runs the percentiles of such a bootstrap are too
  narrow (five runs: they hold the truth in 8 of 10 cases). So the resamples give the standard error, and Student's t
  gives its multiple.
* *Episodes* of one policy. They are independent, within a task and between tasks. A share of successes has Wilson's
  interval, which keeps a width when all episodes succeed (`wilson`, `rate_interval`). Other scores are resampled per
  task (`bootstrap`).

Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice", NeurIPS 2021: interquartile mean
and probability of improvement. Wilson, "Probable inference", JASA 1927. Zou and Donner, "Construction of confidence
limits about effect measures", Statistics in Medicine 2008: limits of a sum from the limits of its terms.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import atan, cos, pi, sin, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Statistic = Callable[[Array], Array]  # (..., R, K) -> (...)
Interval = tuple[float, float]
LEVEL = 0.95
RATE = (0.0, 1.0)  # the bounds of a success rate


def mean(scores: Array) -> Array:
    """Average over repetitions and tasks."""
    return np.asarray(scores.mean(axis=(-2, -1)), dtype=np.float64)


def iqm(scores: Array) -> Array:
    """Average the middle half of all scores. One lucky or one failed run changes this mean little."""
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    cut = flat.shape[-1] // 4
    return np.asarray(flat[..., cut : flat.shape[-1] - cut].mean(axis=-1), dtype=np.float64)


# Runs


def run_interval(
    scores: Array, statistic: Statistic = mean, *, bounds: Interval | None = None, resamples: int = 2000, seed: int = 0
) -> Interval:
    """Bound a statistic of the scores of at least two runs.

    Args:
        scores: (R, K), one row per run.
        statistic: Maps (..., R, K) to (...).
        bounds: The possible values; the interval is cut there.
        resamples: Number of times that R whole runs are drawn.
        seed: Seed of the resampling. The same seed and scores give the same interval.
    """
    runs, value = len(scores), float(statistic(scores))
    if statistic is mean:  # what infinitely many resamples give
        spread = float(scores.mean(axis=1).std())
    else:
        index = np.random.default_rng(seed).integers(runs, size=(resamples, runs))
        spread = float(statistic(scores[index]).std()) * sqrt(runs)
    # Resampled runs spread about their own mean and not about the true one, which makes them too close to each other.
    half = student_quantile(runs - 1) * spread / sqrt(runs - 1)
    return _within(value - half, value + half, bounds)


@cache
def student_quantile(freedom: int, level: float = LEVEL) -> float:
    """Return the t for which a share `level` of Student's distribution lies between -t and t."""
    low, high = 0.0, 1.0
    while _student_share(high, freedom) < level:
        high *= 2.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _student_share(middle, freedom) < level else (low, middle)
    return high


def _student_share(t: float, freedom: int) -> float:
    """Return the share of Student's distribution between -t and t: a finite sum for whole degrees of freedom."""
    angle, is_odd = atan(t / sqrt(freedom)), freedom % 2 == 1
    total, term = 0.0, cos(angle) if is_odd else 1.0
    for k in range(1 + is_odd, freedom, 2):
        total += term
        term *= cos(angle) ** 2 * k / (k + 1)
    return (2.0 / pi) * (angle + sin(angle) * total) if is_odd else sin(angle) * total


def improvement(ours: Array, theirs: Array) -> Array:
    """Return how probably a run of ours beats one of theirs, averaged over the tasks; a tie counts half.

    Args:
        ours: (..., R, K)
        theirs: (..., S, K), the same tasks.
    """
    one, other = ours[..., :, None, :], theirs[..., None, :, :]
    return np.asarray(((one > other) + 0.5 * (one == other)).mean(axis=(-3, -2, -1)), dtype=np.float64)


def improvement_interval(ours: Array, theirs: Array, *, resamples: int = 2000, seed: int = 0) -> Interval:
    """Bound the probability of improvement, resampling the whole runs of both sides."""
    draw, fewest = np.random.default_rng(seed), min(len(ours), len(theirs))
    index = [draw.integers(len(each), size=(resamples, len(each))) for each in (ours, theirs)]
    value, spread = float(improvement(ours, theirs)), float(improvement(ours[index[0]], theirs[index[1]]).std())
    if fewest < 2 or spread == 0.0:  # every run of one side beats every run of the other: count runs as episodes
        return wilson(value, fewest)
    half = student_quantile(fewest - 1) * spread * sqrt(fewest / (fewest - 1))
    return _within(value - half, value + half, RATE)


# Episodes


def wilson(rate: float, count: int, level: float = LEVEL) -> Interval:
    """Bound the probability of success, given the share of successes among `count` independent episodes.

    For scores between 0 and 1 that are not only 0 and 1, it is wider than it has to be.
    """
    z = NormalDist().inv_cdf(0.5 + 0.5 * level)
    shrink, shift = 1.0 + z * z / count, z * z / (2.0 * count)
    half = z * sqrt(rate * (1.0 - rate) / count + z * z / (4.0 * count * count))
    # Rounding must not move a bound past a rate of exactly 0 or 1.
    lower, upper = _within((rate + shift - half) / shrink, (rate + shift + half) / shrink, RATE)
    return min(rate, lower), max(rate, upper)


def rate_interval(rates: Array, count: int) -> Interval:
    """Bound the mean of the success rates (K,) of K tasks with `count` independent episodes each.

    It is Wilson's interval of all episodes. It is too wide where tasks differ: their mean varies less than a rate does.
    """
    return wilson(float(rates.mean()), count * len(rates))


def score_interval(scores: Array) -> Interval:
    """Bound the mean score of independent episodes (E, K): by Wilson if a score is 0 or 1, else by the bootstrap."""
    if np.isin(scores, RATE).all():
        return rate_interval(scores.mean(axis=0), len(scores))
    return bootstrap(scores)


def bootstrap(
    scores: Array, statistic: Statistic = mean, *, resamples: int = 2000, level: float = LEVEL, seed: int = 0
) -> Interval:
    """Bound a statistic of the scores of independent episodes by the percentiles of its bootstrap distribution.

    A resample draws the episodes of each task independently, so every task keeps its weight.

    Args:
        scores: (E, K), one row per episode; not for runs, whose tasks belong together (`run_interval`).
        statistic: Maps (..., E, K) to (...).
        resamples: Number of bootstrap resamples.
        level: Share of the distribution between the two bounds.
        seed: Seed of the resampling. The same seed and scores give the same interval.
    """
    repetitions, strata = scores.shape
    index = np.random.default_rng(seed).integers(repetitions, size=(resamples, repetitions, strata))
    drawn = np.take_along_axis(scores[None], index, axis=1)  # (S, E, K)
    tail = 50.0 * (1.0 - level)
    low, high = np.percentile(statistic(drawn), [tail, 100.0 - tail])
    return float(low), float(high)


# Both


def difference_interval(value: float, interval: Interval, other: float, other_interval: Interval) -> Interval:
    """Bound `value - other`, where the two are independent and each has an interval."""
    low = value - other - sqrt((value - interval[0]) ** 2 + (other_interval[1] - other) ** 2)
    high = value - other + sqrt((interval[1] - value) ** 2 + (other - other_interval[0]) ** 2)
    return low, high


def _within(low: float, high: float, bounds: Interval | None) -> Interval:
    return (low, high) if bounds is None else (max(low, bounds[0]), min(high, bounds[1]))
