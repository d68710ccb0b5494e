"""Means and confidence intervals: interquartile mean and stratified bootstrap, in numpy.

Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice", NeurIPS 2021. Scores are a
matrix of R repetitions (seeds or episodes) by K strata (tasks). A resample draws the repetitions of each task
independently, so every task keeps its weight.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Statistic = Callable[[Array], Array]  # (..., R, K) -> (...)


def mean(scores: Array) -> Array:
    """Average over repetitions and tasks."""
    return np.asarray(scores.mean(axis=(-2, -1)), dtype=np.float64)


def iqm(scores: Array) -> Array:
    """Average the middle half of all scores. One lucky or one failed run changes this mean little."""
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    cut = flat.shape[-1] // 4
    return np.asarray(flat[..., cut : flat.shape[-1] - cut].mean(axis=-1), dtype=np.float64)


def bootstrap(
    scores: Array, statistic: Statistic = mean, *, resamples: int = 2000, level: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Bound a statistic of the scores by the percentiles of its stratified bootstrap distribution.

    Args:
        scores: (R, K)
        statistic: Maps (..., R, K) to (...).
        resamples: Number of bootstrap resamples.
        level: Share of the distribution between the two bounds.
        seed: Seed of the resampling. The same seed and scores give the same interval.

    Returns:
        The lower and the upper bound.
    """
    repetitions, strata = scores.shape
    index = np.random.default_rng(seed).integers(repetitions, size=(resamples, repetitions, strata))
    drawn = np.take_along_axis(scores[None], index, axis=1)  # (S, R, K)
    tail = 50.0 * (1.0 - level)
    low, high = np.percentile(statistic(drawn), [tail, 100.0 - tail])
    return float(low), float(high)
