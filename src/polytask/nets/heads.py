"""The last layer of a network: one for all tasks, or one per task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Generator, Tensor, nn

from polytask.nets.layers import Init, NetShape, TaskLinear, linear, uniform
from polytask.settings import setting

HEAD_KINDS = ("single", "multi")


@dataclass
class HeadsConfig:
    """Setting of the last layer."""

    heads: str = setting("single", "one output layer (single) or one per task (multi)", choices=HEAD_KINDS)


class SingleHead(nn.Module):
    """One linear output layer that every task shares."""

    def __init__(self, in_dim: int, shape: NetShape, generator: Generator, init: Init) -> None:
        """Draw the weights."""
        super().__init__()
        self.linear = linear(in_dim, shape.out_dim, generator, init=init)

    def forward(self, features: Tensor, task: Tensor) -> Tensor:
        """Map features (B, D) to outputs (B, out); the task is ignored."""
        output: Tensor = self.linear(features)
        return output


def multi_head(in_dim: int, shape: NetShape, generator: Generator, init: Init) -> TaskLinear:
    """Build one linear output layer per task."""
    return TaskLinear(shape.num_tasks, in_dim, shape.out_dim, generator, init)


HEADS: dict[str, Callable[[int, NetShape, Generator, Init], nn.Module]] = {"single": SingleHead, "multi": multi_head}


def make_head(kind: str, in_dim: int, shape: NetShape, generator: Generator, init: Init = uniform) -> nn.Module:
    """Build the head named `kind`, which maps features (B, D) and tasks (B,) to outputs (B, out)."""
    return HEADS[kind](in_dim, shape, generator, init)
