"""Metrics of the task gradients, computed from their Gram matrix: their norms and how much they conflict."""

from __future__ import annotations

from torch import Tensor

from polytask.grads.solvers import unit_gram


def conflict_metrics(gram: Tensor) -> dict[str, Tensor]:
    """Return each task's gradient norm (K,) and the smallest, mean and largest cosine between two tasks.

    A single task has no pair, so its cosine with itself is returned.
    """
    num_tasks = len(gram)
    cosine, _ = unit_gram(gram)
    # Removing the first entry and every (K + 1)-th after it leaves the off-diagonal entries, in a fixed shape.
    pairs = cosine if num_tasks == 1 else cosine.flatten()[1:].view(num_tasks - 1, num_tasks + 1)[:, :-1]
    return {
        "norms": gram.diagonal().clamp_min(0).sqrt(),
        "cosine_min": pairs.amin(),
        "cosine_mean": pairs.mean(),
        "cosine_max": pairs.amax(),
    }
