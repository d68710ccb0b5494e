"""Parts that CAGrad and MGDA share: convex weights that a solver finds step by step, starting from the last ones."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.grads.method import GradConfig, GradMethod
from polytask.settings import setting


@dataclass
class SimplexConfig(GradConfig):
    """Settings of the solver."""

    iterations: int = setting(50, "projected-gradient steps per update", within=(1, 10_000))


class SimplexMethod(GradMethod):
    """A method that solves a problem over the simplex in every update.

    Attributes:
        simplex: Solution of the last update, from which `weights` starts the next one. (K,) float64
    """

    cfg: SimplexConfig

    def __init__(self, cfg: SimplexConfig, num_tasks: int, device: torch.device, generator: torch.Generator) -> None:
        """Start from the centre of the simplex."""
        super().__init__(cfg, num_tasks, device, generator)
        self.simplex = torch.full((num_tasks,), 1 / num_tasks, dtype=torch.float64, device=device)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the last solution."""
        return {"simplex": self.simplex}
