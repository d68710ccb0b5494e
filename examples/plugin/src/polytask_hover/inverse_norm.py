"""The gradient method `inverse_norm`: weigh every task by the inverse length of its gradient."""

from dataclasses import dataclass

from torch import Tensor

import polytask
from polytask.grads.method import GradConfig, GradMethod, required
from polytask.settings import setting


@dataclass
class InverseNormConfig(GradConfig):
    """Settings."""

    name: str = "inverse_norm"
    eps: float = setting(1e-8, "keeps a vanishing gradient from taking all the weight", above=0.0)


@polytask.register_grad(InverseNormConfig)
class InverseNorm(GradMethod):
    """Weights that sum to 1."""

    cfg: InverseNormConfig

    def weights(self, losses: Tensor, gram: Tensor | None) -> Tensor:
        """Return the weights (K,) from the Gram matrix (K, K) of the gradients."""
        inverse = 1.0 / (required(gram).diagonal().sqrt() + self.cfg.eps)
        return (inverse / inverse.sum()).to(losses.dtype)
