"""The trunk of projected task-specific layers.

y = phi(S x + s + U (W_i (D x) + b_i)), where S is the shared layer and W_i the layer of task i. D and U are projections
that all tasks share. `polytask.nets.ptsl` puts the trunk on top of an encoder.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Generator, Tensor, nn

from polytask.nets import layers
from polytask.nets.layers import ACTIVATIONS, COUNT, WIDTH
from polytask.nets.task_code import unit_normal
from polytask.settings import setting


@dataclass
class TrunkConfig:
    """Settings of the trunk."""

    hidden: int = setting(
        326,
        "width of the hidden layers; 326 matches CARE's parameter count on MT10, 321 with residual=project",
        **WIDTH,
    )
    layers: int = setting(3, "number of hidden layers", **COUNT)
    rank: int = setting(50, "width p of the task-specific layers", **WIDTH)
    projection: str = setting(
        "shared",
        "one pair of projections for all layers (shared) or per layer (independent)",
        choices=("shared", "independent"),
    )
    residual: str = setting(
        "none",
        "what a task-specific layer reads of the previous one: none, sum, linear, project",
        choices=("none", "sum", "linear", "project"),
    )
    init: str = setting(
        "default",
        "initial values of the projections: default (only the last factor is zero) or released (all are zero)",
        choices=("default", "released"),
    )
    activation: str = setting("relu", "activation of the hidden layers", choices=ACTIVATIONS)


@dataclass(frozen=True)
class Plan:
    """Widths of one layer: S is in x out, D in x rank, U rank x out, a task's layer inner_in x inner_out."""

    in_dim: int
    out_dim: int
    has_down: bool
    has_up: bool
    inner_in: int
    inner_out: int


def plan(cfg: TrunkConfig, shape: layers.NetShape) -> list[Plan]:
    """Return the widths of all layers; a projection exists where layers share it or where it saves parameters."""
    widths = [shape.in_dim, *[cfg.hidden] * cfg.layers, shape.out_dim]
    p, n, is_shared, is_residual = cfg.rank, shape.num_tasks, cfg.projection == "shared", cfg.residual != "none"
    plans = []
    for index, (i, o) in enumerate(pairwise(widths)):
        is_first, is_last = index == 0, index == cfg.layers
        down = is_residual or (is_shared and not is_first) or i * p + n * (p + 1) * p <= n * (i + 1) * p
        q = p if down else i
        up = (is_residual or is_shared) and not is_last
        up = up or o * p + n * (q + 1) * p <= n * (q + 1) * o
        plans.append(Plan(i, o, down, up, q, p if up else o))
    return plans


def standard_normal(weight: Tensor, generator: Generator) -> None:
    """Draw from N(0, 1)."""
    nn.init.normal_(weight, generator=generator)


class Trunk(nn.Module):
    """Hidden layers and an output layer, each a shared linear map plus a projected task-specific one."""

    def __init__(self, cfg: TrunkConfig, shape: layers.NetShape, generator: Generator) -> None:
        """Draw the weights; `shape.in_dim` is the output width of the base."""
        super().__init__()
        plans, p = plan(cfg, shape), cfg.rank
        is_released = cfg.init == "released"
        enter: layers.Init = layers.zeros if is_released else layers.xavier
        draw: layers.Init = standard_normal if is_released else unit_normal

        def project(exists: bool, i: int, o: int, init: layers.Init) -> nn.Module:
            return layers.linear(i, o, generator, init=init, bias=False) if exists else nn.Identity()

        def own(step: Plan) -> layers.TaskLinear:
            init = draw if step.has_up or is_released else layers.zeros  # without U this is the branch's last factor
            return layers.TaskLinear(shape.num_tasks, step.inner_in, step.inner_out, generator, init)

        self.shared = nn.ModuleList([layers.linear(s.in_dim, s.out_dim, generator, init=layers.xavier) for s in plans])
        self.own = nn.ModuleList([own(step) for step in plans])
        # Shared projections: the first D and the last U have other widths, so there are two of each.
        downs, ups = (plans[:2], plans[-2:]) if cfg.projection == "shared" else (plans, plans)
        self.down = nn.ModuleList([project(s.has_down, s.in_dim, p, enter) for s in downs])
        self.up = nn.ModuleList([project(s.has_up, p, s.out_dim, layers.zeros) for s in ups])
        self.residual = cfg.residual
        if cfg.residual == "linear":
            self.mix = nn.Parameter(torch.full((3,), 1.0 / 3.0, device=generator.device))
        elif cfg.residual == "project":
            self.mix_projection = layers.linear(3 * p, p, generator, init=enter, bias=False)
        self.activation = layers.ACTIVATIONS[cfg.activation]()

    def combine(self, now: Tensor, before: Tensor, output: Tensor) -> Tensor:
        """Combine this layer's projection with the previous layer's projection and task-specific output, all (B, p)."""
        if self.residual == "sum":
            return now + before + output
        if self.residual == "linear":
            return self.mix[0] * now + self.mix[1] * before + self.mix[2] * output
        mixed: Tensor = self.mix_projection(torch.cat([now, before, output], dim=-1))
        return mixed

    def forward(self, x: Tensor, task: Tensor) -> Tensor:
        """Map (B, in) of tasks (B,) to outputs (B, out)."""
        last = len(self.shared) - 1
        before = output = x
        for index, (shared, own) in enumerate(zip(self.shared, self.own, strict=True)):
            now = self.down[min(index, len(self.down) - 1)](x)
            is_plain = index == 0 or self.residual == "none"
            output = own(now if is_plain else self.combine(now, before, output), task)
            total = shared(x) + self.up[max(0, index - last + len(self.up) - 1)](output)
            x, before = total if index == last else self.activation(total), now
        return x
