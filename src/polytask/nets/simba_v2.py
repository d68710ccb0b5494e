"""SimbaV2: a residual network that keeps features and weight rows at length one, with learned scales between them.

Lee et al., "Hyperspherical Normalization for Scalable Deep Reinforcement Learning", ICML 2025 (arXiv 2502.15280).

Differences from the paper: Reward scaling and the distributional loss are part of the algorithm, the running
normalization of observations is part of the learner. The task code is part of the input. Sizes are those of MTBench's
critic (width 256, two blocks). As in the authors' code, a policy that gives means and spreads (SAC) has two heads.
Differences from MTBench: Weights are projected back to the sphere at the start and after every optimizer step
(`after_step`). A scaler starts at its stated initial value, not at its square.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from polytask.nets import layers
from polytask.nets.heads import HeadsConfig, make_head
from polytask.nets.layers import COUNT, WIDTH
from polytask.nets.task_code import TaskCode, TaskCodeConfig
from polytask.settings import setting


@dataclass
class SimbaV2Config(TaskCodeConfig, HeadsConfig):
    """Settings of the hyperspherical network."""

    name: str = "simba_v2"
    hidden: int = setting(256, "width of the features", **WIDTH)
    blocks: int = setting(2, "residual blocks", within=(0, 1_000))
    expansion: int = setting(4, "width of a block's inner layer, in multiples of `hidden`", **COUNT)
    shift: float = setting(
        3.0, "constant appended to the input, so that the normalization does not lose its magnitude", is_free=True
    )
    two_heads: bool = setting(
        True, "SAC: the policy's means and spreads have heads of their own, as published; else they share one"
    )


def unit_rows(weight: Tensor, generator: Generator) -> None:
    """Draw an orthogonal matrix and scale its rows to length one."""
    nn.init.orthogonal_(weight, generator=generator)
    weight.div_(weight.norm(dim=-1, keepdim=True))


def normalize(x: Tensor) -> Tensor:
    """Scale the last axis to length one."""
    return functional.normalize(x, dim=-1, eps=1e-8)


class Scaler(nn.Module):
    """Multiplies by a learned vector that starts at `start`.

    The parameter itself starts at `scale`: the smaller it is, the faster a step of Adam changes the vector.
    """

    def __init__(self, width: int, start: float, scale: float, generator: Generator) -> None:
        """Build the vector."""
        super().__init__()
        self.value = nn.Parameter(torch.full((width,), scale, device=generator.device))
        self.factor = start / scale

    def forward(self, x: Tensor) -> Tensor:
        """Scale (B, D)."""
        return self.value * self.factor * x


class Block(nn.Module):
    """Moves features on the sphere towards the output of a perceptron: h <- l2(h + alpha * (m(h) - h))."""

    def __init__(self, cfg: SimbaV2Config, generator: Generator) -> None:
        """Draw the weights; alpha starts at 1 / (blocks + 1)."""
        super().__init__()
        width, inner = cfg.hidden, cfg.hidden * cfg.expansion
        scale = math.sqrt(2.0 / width) / math.sqrt(cfg.expansion)
        self.up = layers.linear(width, inner, generator, init=unit_rows, bias=False)
        self.scaler = Scaler(inner, scale, scale, generator)
        self.down = layers.linear(inner, width, generator, init=unit_rows, bias=False)
        self.alpha = Scaler(width, 1.0 / (cfg.blocks + 1), 1.0 / math.sqrt(width), generator)

    def forward(self, features: Tensor) -> Tensor:
        """Map unit features (B, D) to unit features (B, D)."""
        inner = torch.relu(self.scaler(self.up(features))) + 1e-8  # never the zero vector
        moved = normalize(self.down(inner))
        return normalize(features + self.alpha(moved - features))


class Head(nn.Module):
    """Another head for a part of the output: a hidden layer, a scaler and the output layer."""

    def __init__(self, cfg: SimbaV2Config, shape: layers.NetShape, generator: Generator) -> None:
        """Draw weights whose rows have length one."""
        super().__init__()
        self.pre_head = layers.linear(cfg.hidden, cfg.hidden, generator, init=unit_rows, bias=False)
        self.head_scaler = Scaler(cfg.hidden, 1.0, 1.0, generator)
        self.head = make_head(cfg.heads, cfg.hidden, shape, generator, unit_rows)

    def forward(self, features: Tensor, task: Tensor) -> Tensor:
        """Map features (B, D) of tasks (B,) to outputs (B, out)."""
        output: Tensor = self.head(self.head_scaler(self.pre_head(features)), task)
        return output


class SimbaV2(nn.Module):
    """A normalized embedding, residual blocks on the sphere, and a head whose weight rows have length one too."""

    def __init__(self, cfg: SimbaV2Config, shape: layers.NetShape, generator: Generator) -> None:
        """Draw weights whose rows have length one."""
        super().__init__()
        width, scale = cfg.hidden, math.sqrt(2.0 / cfg.hidden)
        self.shift = cfg.shift
        self.code = TaskCode.of(cfg, shape.num_tasks, generator)
        in_dim = shape.in_dim + self.code.width + 1
        self.embed = layers.linear(in_dim, width, generator, init=unit_rows, bias=False)
        self.scaler = Scaler(width, scale, scale, generator)
        self.blocks = nn.Sequential(*[Block(cfg, generator) for _ in range(cfg.blocks)])
        self.pre_head = layers.linear(width, width, generator, init=unit_rows, bias=False)
        self.head_scaler = Scaler(width, 1.0, 1.0, generator)
        parts = shape.parts if cfg.two_heads else 1
        part = replace(shape, out_dim=shape.out_dim // parts)
        self.head = make_head(cfg.heads, width, part, generator, unit_rows)
        self.other_heads = nn.ModuleList([Head(cfg, part, generator) for _ in range(parts - 1)])
        self.task_axes = self.code.columns("embed.weight", start=shape.in_dim)  # the constant comes after the code

    def forward(self, x: Tensor, task: Tensor) -> Tensor:
        """Map inputs (B, O) of tasks (B,) to outputs (B, out)."""
        shifted = functional.pad(self.code.append(x, task), (0, 1), value=self.shift)
        features = self.blocks(normalize(self.scaler(self.embed(normalize(shifted)))))
        first: Tensor = self.head(self.head_scaler(self.pre_head(features)), task)
        others = [each(features, task) for each in self.other_heads]
        return torch.cat([first, *others], dim=-1) if others else first

    @torch.no_grad()
    def after_step(self) -> None:
        """Project every weight row back to the unit sphere; must be called after each optimizer step."""
        project(self)

    @torch.no_grad()
    def after_load(self) -> None:
        """Project the embedding's rows, whose columns of other tasks are gone or new, and keep the outputs as they are.

        The scaler takes the lengths over. Otherwise the first `after_step` would turn a loaded policy into another one.
        """
        self.scaler.value.mul_(self.embed.weight.norm(dim=-1))
        project(self.embed)


def project(net: nn.Module) -> None:
    """Scale the rows of all weight matrices in `net` to length one, in place."""
    for module in net.modules():
        if isinstance(module, nn.Linear | layers.TaskLinear):
            module.weight.div_(module.weight.norm(dim=-1, keepdim=True).clamp_min(1e-8))
