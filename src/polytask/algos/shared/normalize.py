"""Normalizers that standardize observations, returns and advantages by a mean and a variance per task.

Rows have the shape (..., N, D) with one task number per world, so a rollout (T, N, D) and a batch (N, D) need the same
call. Sums over a task are products with a one-hot matrix. So there is no loop over tasks and no scatter, and results
are reproducible bit for bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from polytask.errors import UserError
from polytask.nets.task_axes import TaskAxis
from polytask.nets.task_code import one_hot
from polytask.settings import setting
from polytask.types import EnvSpec

# How observations are normalized; `obs_normalizer` explains the words.
NORMALIZE = ("per_task", "shared", "fixed", "none")


class Moments(NamedTuple):
    """Per-task statistics of one batch, in float64."""

    rows: Tensor  # (K,) number of rows
    mean: Tensor  # (K, D)
    variance: Tensor  # (K, D), of the population


def task_moments(x: Tensor, task: Tensor, num_tasks: int, counted: Tensor | None = None) -> Moments:
    """Compute the mean and variance of each task's rows in two passes.

    Args:
        x: (..., N, D)
        task: (N,) int64
        num_tasks: Number of tasks K; a task without rows gets mean and variance 0.
        counted: Worlds whose rows count; None for all. (N,) bool
    """
    rows = x.reshape(-1, *x.shape[-2:])  # (T, N, D)
    member = one_hot(task, num_tasks, torch.float64).T  # (K, N)
    if counted is not None:
        member = member * counted
    count = member.sum(dim=1) * len(rows)  # (K,)
    divisor = count.clamp_min(1.0).unsqueeze(-1)
    mean = member @ rows.sum(dim=0, dtype=torch.float64) / divisor  # (K, D)
    # Squares around the float32 mean avoid a float64 copy of x. The last term corrects the rounding of that mean.
    centre = mean.to(x.dtype)
    square = (rows - centre[task]).square().sum(dim=0, dtype=torch.float64)  # (N, D)
    variance = member @ square / divisor - (mean - centre).square()
    return Moments(count, mean, variance.clamp_min(0.0))


def standardize(x: Tensor, task: Tensor, num_tasks: int, counted: Tensor | None = None, eps: float = 1e-8) -> Tensor:
    """Shift and scale the rows of each task to mean 0 and standard deviation 1 over this batch.

    An earlier standardization over the whole batch would have no effect, because this one undoes it.

    Args:
        x: (..., N)
        task: (N,) int64
        num_tasks: Number of tasks K.
        counted: Worlds whose rows count; None for all. (N,) bool
        eps: Added to the standard deviation, so that a constant task yields zeros.
    """
    moments = task_moments(x.unsqueeze(-1), task, num_tasks, counted)
    mean = moments.mean.squeeze(-1).to(x.dtype)
    scale = (moments.variance.sqrt() + eps).reciprocal().squeeze(-1).to(x.dtype)
    return (x - mean[task]) * scale[task]


class TaskNormalizer(nn.Module):
    """Running mean and variance per task of all rows passed to `update`.

    Statistics are float64, since counts exceed 2^24 within seconds. Rows of a task without statistics are not changed.
    """

    def __init__(
        self,
        num_tasks: int,
        dim: int,
        *,
        clip: float = math.inf,
        min_std: float = 0.0,
        decay: float = 1.0,
        eps: float = 1e-8,
    ) -> None:
        """Start with mean 0 and variance 1.

        Args:
            num_tasks: Number of tasks K.
            dim: Width D of a row.
            clip: Bound on the magnitude of normalized entries, for features that have been constant so far.
            min_std: Smallest number to divide by. An entry that varies less counts as constant: its tiny spread is an
                accident of the simulation, and a policy that reads it fails where the accident is another.
            decay: Weight that earlier rows keep at each update; 1 for data whose distribution does not change.
            eps: Added to the variance.
        """
        super().__init__()
        self.clip, self.min_variance, self.decay, self.eps = clip, min_std**2, decay, eps
        self.task_axes = {name: TaskAxis(0) for name in ("count", "mean", "variance")}
        self.count: Tensor
        self.mean: Tensor
        self.variance: Tensor
        self.register_buffer("count", torch.zeros(num_tasks, dtype=torch.float64))  # (K,)
        self.register_buffer("mean", torch.zeros(num_tasks, dim, dtype=torch.float64))  # (K, D)
        self.register_buffer("variance", torch.ones(num_tasks, dim, dtype=torch.float64))  # (K, D)

    @torch.no_grad()
    def update(self, x: Tensor, task: Tensor, counted: Tensor | None = None) -> None:
        """Merge the rows (..., N, D) of tasks (N,) into the statistics (Chan et al. 1979).

        Only the rows of the worlds `counted` (N,), if that is given.
        """
        batch = task_moments(x, task, len(self.count), counted)
        total = self.decay * self.count + batch.rows
        share = (batch.rows / total.clamp_min(1.0)).unsqueeze(-1)  # (K, 1) of the new rows
        delta = batch.mean - self.mean
        # A share of 0, as for a task without rows, changes nothing.
        self.variance.copy_(self.variance.lerp(batch.variance, share) + delta.square() * share * (1 - share))
        self.mean.add_(delta * share)
        self.count.copy_(total)

    def limit_rows(self, most: float) -> None:
        """Reduce the count of earlier rows to at most `most` per task, so that new rows change the statistics soon."""
        self.count.clamp_max_(most)

    def normalize(self, x: Tensor, task: Tensor) -> Tensor:
        """Standardize rows (..., D) of tasks (...)."""
        mean = self.mean.to(x.dtype)
        scale = self.scale().to(x.dtype)
        return ((x - mean[task]) * scale[task]).clamp(-self.clip, self.clip)

    def scale(self) -> Tensor:
        """Return what `normalize` multiplies by. (K, D)"""
        return self._squared_unit().rsqrt()

    def denormalize(self, x: Tensor, task: Tensor) -> Tensor:
        """Invert `normalize`, except for the clipping."""
        mean = self.mean.to(x.dtype)
        scale = self._squared_unit().sqrt().to(x.dtype)
        return x * scale[task] + mean[task]

    def _squared_unit(self) -> Tensor:
        """Return the square (K, D) of the number that entries are divided by."""
        return self.variance.clamp_min(self.min_variance) + self.eps


class SharedNormalizer(TaskNormalizer):
    """Running mean and variance of the rows of all tasks together, so that an entry means the same in every task."""

    def __init__(self, dim: int, *, clip: float = math.inf, min_std: float = 0.0) -> None:
        """Start with mean 0 and variance 1; the arguments are those of `TaskNormalizer`."""
        super().__init__(1, dim, clip=clip, min_std=min_std)
        self.task_axes = {}  # a run with other tasks takes the statistics over as they are

    def update(self, x: Tensor, task: Tensor, counted: Tensor | None = None) -> None:
        """Merge the rows (..., N, D) into the statistics, or only those of the worlds `counted` (N,)."""
        super().update(x, torch.zeros_like(task), counted)

    def normalize(self, x: Tensor, task: Tensor) -> Tensor:
        """Standardize rows (..., D)."""
        return super().normalize(x, torch.zeros_like(task))

    def denormalize(self, x: Tensor, task: Tensor) -> Tensor:
        """Invert `normalize`, except for the clipping."""
        return super().denormalize(x, torch.zeros_like(task))


class FixedScale(nn.Module):
    """Constant factors; nothing is learned, so nothing is saved."""

    def __init__(self, scale: tuple[float, ...], clip: float) -> None:
        """Store the factors (D,) and the bound on the magnitude of the results."""
        super().__init__()
        self.clip = clip
        self.scale: Tensor
        self.register_buffer("scale", torch.tensor(scale), persistent=False)

    def update(self, x: Tensor, task: Tensor) -> None:
        """Do nothing."""

    def normalize(self, x: Tensor, task: Tensor) -> Tensor:
        """Scale rows (..., D)."""
        return (x * self.scale).clamp(-self.clip, self.clip)


ObsNormalizer = TaskNormalizer | FixedScale


@dataclass
class ObsNormalizerConfig:
    """Settings of the normalization of observations."""

    normalize: str = setting(
        "per_task",
        "normalize observations by running statistics of each task (per_task), of all tasks together (shared), by the "
        "constant factors that the environment declares (fixed; parkour has them), or not at all (none)",
        choices=NORMALIZE,
    )
    obs_clip: float = setting(
        10.0, "bound on normalized observations, for entries that have been constant so far", above=0.0
    )
    min_obs_std: float = setting(
        1e-2,
        "smallest standard deviation that observations are divided by, in their own units; below it they are dust",
        at_least=0.0,
    )


def obs_normalizer(cfg: ObsNormalizerConfig, spec: EnvSpec, device: torch.device) -> ObsNormalizer:
    """Build the normalizer of observations that the settings ask for.

    `per_task` makes the most of each task's own range. But where an entry varies little in one task and much in
    another, as the height of the ground does, the same height looks different in every task, and what is learned of it
    in one task does not help in another. `shared` and `fixed` show it alike everywhere.

    Raises:
        UserError: If the environment declares no factors.
    """
    found: ObsNormalizer
    if cfg.normalize == "fixed":
        if not spec.obs_scale:
            raise UserError(
                "algo.normalize=fixed does not apply: these tasks declare no scales; use shared or per_task"
            )
        found = FixedScale(spec.obs_scale, cfg.obs_clip)
    elif cfg.normalize == "none":
        found = FixedScale((1.0,) * spec.obs_dim, cfg.obs_clip)
    elif cfg.normalize == "shared":
        found = SharedNormalizer(spec.obs_dim, clip=cfg.obs_clip, min_std=cfg.min_obs_std)
    else:
        found = TaskNormalizer(spec.num_tasks, spec.obs_dim, clip=cfg.obs_clip, min_std=cfg.min_obs_std)
    return found.to(device)
