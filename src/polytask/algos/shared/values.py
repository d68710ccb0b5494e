"""What twin critics predict of a return: its mean (`ScalarValues`), or its distribution over a grid (`GridValues`).

Both kinds give a learner the same functions: targets from what the target critics say, the loss of the critics, and the
value that the actor climbs. `twin` names how two critics become one. With "min" each row believes the less hopeful
critic (clipped double Q-learning: Fujimoto et al. 2018, arXiv 1802.09477), with "mean" the average of both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from polytask.algos.shared.distributional import cross_entropy, expectation, project
from polytask.settings import setting

TWINS: dict[str, Callable[[Tensor], Tensor]] = {  # (2, ...) -> (...)
    "min": lambda values: values.amin(dim=0),
    "mean": lambda values: values.mean(dim=0),
}


@dataclass
class GridConfig:
    """Settings of the grid of critics that predict distributions."""

    atoms: int = setting(101, "number of values in the critics' distribution of the return", within=(2, 10_000))
    min_value: float = setting(-10.0, "lowest value of this distribution, in units of the scaled rewards", is_free=True)
    max_value: float = setting(10.0, "highest value of this distribution", is_free=True)
    initial_spread: float = setting(
        math.inf,
        "standard deviation of the returns that untrained critics predict; inf: all values are equally likely",
        within=(1e-3, math.inf),
    )


class Values(Protocol):
    """The functions that depend on what critics predict; `output` is that of both critics, (2, B, width)."""

    width: int  # number of outputs of a critic
    bound: float  # largest magnitude that rewards alone may give a value
    metrics: tuple[str, ...]  # names of `summary`

    def of(self, output: Tensor) -> Tensor:
        """Return the values (B,) that both critics together give."""
        ...

    def targets(self, output: Tensor, reward: Tensor, discount: Tensor, bonus: Tensor | float = 0.0) -> Tensor:
        """Return the targets (..., *) of `reward + discount * (value + bonus)`, all (...) of B rows in total."""
        ...

    def losses(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the losses (B,) against targets (B, *), summed over both critics."""
        ...

    def summary(self, target: Tensor) -> dict[str, Tensor]:
        """Return scalars that describe targets."""
        ...


class ScalarValues:
    """Critics with one output, which learn the mean of the return by its squared error."""

    width = 1
    bound = 10.0
    metrics: tuple[str, ...] = ("value/target",)

    def __init__(self, twin: str) -> None:
        """Choose how two critics become one, by a name in `TWINS`."""
        self._join = TWINS[twin]

    def of(self, output: Tensor) -> Tensor:
        """Return the joined outputs."""
        return self._join(output.squeeze(-1))

    def targets(self, output: Tensor, reward: Tensor, discount: Tensor, bonus: Tensor | float = 0.0) -> Tensor:
        """Return one number per row."""
        return reward + discount * (self.of(output).view_as(reward) + bonus)

    def losses(self, output: Tensor, target: Tensor) -> Tensor:
        """Return squared errors."""
        return (output.squeeze(-1) - target).square().sum(dim=0)

    def summary(self, target: Tensor) -> dict[str, Tensor]:
        """Return the mean target."""
        return {"value/target": target.mean()}


class GridValues:
    """Critics that predict logits over a grid of M returns and learn by cross-entropy.

    A normal distribution around zero, as logits, is added to their outputs. Scaled returns have a standard deviation of
    about one. Critics that start with all returns of a wide grid equally likely first learn that, and only then which
    actions are better.
    """

    metrics: tuple[str, ...] = ("value/target", "value/at_bounds")

    def __init__(self, cfg: GridConfig, twin: str, device: torch.device, *, reward_share: float = 1.0) -> None:
        """Build the grid.

        Args:
            cfg: Settings of the grid.
            twin: How two critics become one, a name in `TWINS`.
            device: Device of the grid.
            reward_share: Part of the grid that rewards alone may fill; the rest is for a `bonus` such as entropy.
        """
        self.twin, self.width = twin, cfg.atoms
        self.atoms = torch.linspace(cfg.min_value, cfg.max_value, cfg.atoms, device=device)  # (M,)
        self.prior = -0.5 * (self.atoms / cfg.initial_spread).square()  # (M,)
        # The end nearer to zero, so that returns of either sign fit; a grid that starts or ends at zero has one end.
        self.bound = reward_share * min(abs(end) for end in (cfg.min_value, cfg.max_value) if end != 0)

    def of(self, output: Tensor) -> Tensor:
        """Return the joined means of the distributions."""
        return TWINS[self.twin](expectation(output + self.prior, self.atoms))

    def targets(self, output: Tensor, reward: Tensor, discount: Tensor, bonus: Tensor | float = 0.0) -> Tensor:
        """Return one distribution (M,) per row, whose mass outside the grid is moved to its ends."""
        probability = self._distribution(output).view(*reward.shape, -1)
        return project(probability, reward + discount * bonus, discount, self.atoms)

    def _distribution(self, output: Tensor) -> Tensor:
        """Return the distributions (B, M) of the critics with the smaller means, or the mixtures of both critics'."""
        both = (output + self.prior).softmax(dim=-1)
        if self.twin == "mean":
            return both.mean(dim=0)
        first, second = both
        is_first = (first @ self.atoms <= second @ self.atoms).unsqueeze(-1)
        return torch.where(is_first, first, second)

    def losses(self, output: Tensor, target: Tensor) -> Tensor:
        """Return cross-entropies."""
        return cross_entropy(output + self.prior, target).sum(dim=0)

    def summary(self, target: Tensor) -> dict[str, Tensor]:
        """Return the mean of the targets and their mass at both ends, where what is outside the grid is counted."""
        means = target @ self.atoms
        return {"value/target": means.mean(), "value/at_bounds": (target[..., 0] + target[..., -1]).mean()}
