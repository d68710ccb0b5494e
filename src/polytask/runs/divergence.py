"""Stop a run whose learner has diverged, before anything that is not finite is saved.

One bad update is no divergence. Gradient methods leave out a task whose loss is NaN or infinite, and a learner skips a
step whose gradient is not finite (`grads.method`, `algos.shared.learner`). A learner has diverged

* if more than half of an iteration's updates left out the same task. Each loss `loss/NAME` comes with the metric
  `skipped/NAME`: the share of the iteration's updates that left out the task that was left out most often. The metrics
  of an iteration are read anyway, so this check does not wait for the device.
* if a number of its networks, running statistics, optimizers or gradient methods is not finite when a checkpoint is
  due. This costs one wait per checkpoint.

The checkpoint in the folder is then the last good one. A policy whose actions are NaN is noticed too: its own loss, or
that of a critic that learns from such an action, is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from polytask.errors import UserError
from polytask.files import LogRow
from polytask.parallel.ranks import ALONE, Ranks
from polytask.runs.transfer import saved_parts, shorten

MOST_SKIPPED = 0.5  # largest share of an iteration's updates that may leave out a task
MOST_TASKS = 3  # named in a message


class DivergedError(UserError):
    """The learner has diverged."""


def check_metrics(row: LogRow, tasks: Sequence[str]) -> None:
    """Check that most updates of an iteration used every task.

    Args:
        row: The metrics of the iteration.
        tasks: Names of the tasks.

    Raises:
        DivergedError: If they did not.
    """
    for metric, share in row.items():
        if not metric.startswith("skipped/") or share is None or share <= MOST_SKIPPED:
            continue
        loss = metric.removeprefix("skipped/")
        bad = [task for task in tasks if not math.isfinite(row.get(f"per_task/{task}/{loss}_loss") or 0.0)]
        what = f"loss/{loss} of {_listed(bad, len(tasks))}" if bad else f"the gradient of loss/{loss}"
        raise DivergedError(
            f"the learner diverged in iteration {row['iteration']}: {what} is not finite in {share:.0%} of the updates"
        )


def check_state(algo: dict[str, Any], iteration: int, ranks: Ranks = ALONE) -> None:
    """Check that the state of an algorithm is finite.

    Args:
        algo: What `Algo.state_dict` returned. The states of all ranks are equal, so only that of rank 0 is read.
        iteration: Number of finished iterations.
        ranks: The processes that call this together.

    Raises:
        DivergedError: If it is not, on every rank.
    """
    if names := ranks.of_first(not_finite(algo) if ranks.is_first else []):
        raise DivergedError(f"the learner diverged by iteration {iteration}: NaN or infinity in {shorten(names)}")


def advice(checkpoint: Path, iteration: int) -> str:
    """Return what a user can do after a divergence, given the last good checkpoint and its iteration."""
    return f"the last good checkpoint is '{checkpoint}' (iteration {iteration}); a lower algo.lr usually helps"


def not_finite(algo: dict[str, Any]) -> list[str]:
    """Return the names of the tensors in an algorithm's saved state that contain NaN or infinity.

    These are the tensors of networks, running statistics, optimizers and gradient methods.
    """
    parts: dict[str, dict[Any, Any]] = dict(saved_parts(algo))
    for name, learner in algo["learners"].items():
        parts |= {f"{name}.optimizer.{index}": moments for index, moments in learner["optimizer"].items()}
        parts[f"{name}.grads"] = learner.get("grads") or {}
    tensors = {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}
    flags = {name: value.isfinite().all() for name, value in tensors.items() if isinstance(value, Tensor)}
    if not flags:
        return []
    device = next((flag.device for flag in flags.values() if flag.is_cuda), torch.device("cpu"))
    are_finite = torch.stack([flag.to(device) for flag in flags.values()]).tolist()  # one wait for all tensors
    return [name for name, is_finite in zip(flags, are_finite, strict=True) if not is_finite]


def _listed(tasks: list[str], num_tasks: int) -> str:
    """List task names in a few words."""
    if len(tasks) == num_tasks > 1:
        return "all tasks"
    more = f" and {len(tasks) - MOST_TASKS} more" if len(tasks) > MOST_TASKS else ""
    return ", ".join(f"'{task}'" for task in tasks[:MOST_TASKS]) + more
