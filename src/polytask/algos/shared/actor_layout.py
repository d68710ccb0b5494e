"""Where the saved state of an algorithm has its actor, and how the actor's output becomes an action.

With this, a policy is rebuilt from a checkpoint without the algorithm: no critic, no replay buffer, no optimizer. The
config of an algorithm returns it from a method `actor_layout`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


def clip(output: Tensor, action_dim: int) -> Tensor:
    """Clip means (B, A) to the range of actions."""
    return output.clamp(-1.0, 1.0)


def squash(output: Tensor, action_dim: int) -> Tensor:
    """Squash means, the first A outputs (B, A or more), into the range of actions."""
    return torch.tanh(output[:, :action_dim])


def best_levels(output: Tensor, action_dim: int) -> Tensor:
    """Return the level of the highest value for each entry: values (B, A * bins) to actions (B, A)."""
    bins = output.shape[-1] // action_dim
    return levels(output.view(-1, action_dim, bins).argmax(dim=-1), bins)


def levels(choice: Tensor, bins: int) -> Tensor:
    """Convert bin numbers (...) to actions, evenly spaced from -1 to 1."""
    return choice * (2.0 / (bins - 1)) - 1.0


# What turns the output of an actor's network, and the number A of action entries, into actions (B, A) without noise.
DECODERS: dict[str, Callable[[Tensor, int], Tensor]] = {"clip": clip, "squash": squash, "best_levels": best_levels}


@dataclass(frozen=True)
class ActorLayout:
    """The actor of an algorithm.

    Attributes:
        decode: Name of the function in `DECODERS` that turns outputs into actions.
        outputs: Outputs of the network per action entry.
        learner: Name of the learner that has the network.
        prefix: What the names of the network's tensors start with in the state of this learner.
    """

    decode: str
    outputs: int = 1
    learner: str = "actor"
    prefix: str = "net."
