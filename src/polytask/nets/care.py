"""CARE, contextual attention over encoders: a text description of the task decides how encoder features are pooled.

Sodhani et al., "Multi-Task Reinforcement Learning with Context-based Representations", ICML 2021 (arXiv 2102.06177).

Differences from the paper: Descriptions are our own sentences. They are embedded once by all-MiniLM-L6-v2 (384 numbers)
instead of RoBERTa (768), and scaled to unit mean square. Policy and value have separate encoders. By default the
experts of a Q-function see the action too; with `action="trunk"`, as in the authors' library, they see the state alone,
and the trunk reads their output and the action. `attention="gate"` is the form in that library too: a perceptron of the
context only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
import torch
from torch import Generator, Tensor, nn

from polytask.errors import UserError
from polytask.nets import layers
from polytask.nets.heads import HeadsConfig, make_head
from polytask.nets.layers import COUNT, WIDTH
from polytask.nets.task_axes import TaskAxis
from polytask.nets.task_code import TaskCode, rows
from polytask.settings import setting

ACTION = ("experts", "trunk")  # that read the action of a Q-function
ATTENTION = ("dot", "gate")  # product of expert features and context; perceptron of the context


@dataclass
class EncoderConfig:
    """Settings of the mixture of encoders."""

    experts: int = setting(6, "encoders to pool: 6 for MT10, 10 for MT50 in the paper", **COUNT)
    expert_hidden: list[int] = setting(
        [50, 50],
        "widths of an encoder's layers; the last one is linear and must equal `context_dim` for dot attention",
        min_length=1,
        **WIDTH,
    )
    attention: str = setting("dot", "how encoders are weighed: dot or gate", choices=ATTENTION)
    gate_hidden: list[int] = setting([50, 50], "hidden widths of the gate", **WIDTH)
    temperature: float = setting(1.0, "divisor of the attention logits", above=0.0)
    detach_context: bool = setting(True, "stop the gradient from the attention to the context")
    pool_hidden: list[int] = setting(
        [50, 50], "widths of the layers after pooling, the last one linear; may be empty", **WIDTH
    )
    action: str = setting(
        "experts",
        "which part of a Q-function reads the action: the experts, or the trunk beside the encoded state, as published",
        choices=ACTION,
    )
    context: str = setting(
        "descriptions", "source of the context: descriptions or learned", choices=("descriptions", "learned")
    )
    context_hidden: list[int] = setting([100, 50, 50, 50], "hidden widths of the context encoder", **WIDTH)
    context_dim: int = setting(50, "width of the context", **WIDTH)
    embedding_dim: int = setting(32, "width of a learned embedding", **WIDTH)

    def check_together(self, prefix: str) -> None:
        """Check that dot attention can multiply features with the context."""
        if self.attention == "dot" and self.expert_hidden[-1] != self.context_dim:
            raise UserError(
                f"{prefix}attention=dot needs {prefix}expert_hidden[-1] to equal {prefix}context_dim={self.context_dim}"
            )


@dataclass
class CareConfig(EncoderConfig, HeadsConfig):
    """Settings of the encoder and of the trunk after it."""

    name: str = "care"
    hidden: list[int] = setting([400, 400, 400], "widths of the trunk", **WIDTH)
    activation: str = setting("relu", "activation of the trunk", choices=layers.ACTIVATIONS)


def described(task_names: tuple[str, ...] | None) -> Tensor:
    """Load the description embeddings (K, 384) of the tasks, scaled to unit mean square."""
    if task_names is None:
        raise UserError("context=descriptions needs the names of the tasks; without names use context=learned")
    with (files("polytask.nets") / "descriptions.npz").open("rb") as file, np.load(file) as stored:
        index = {str(name): row for row, name in enumerate(stored["names"])}
        matrix = torch.from_numpy(stored["embeddings"]).float()
    missing = [name for name in task_names if name not in index]
    if missing:
        raise UserError(f"no description of: {', '.join(missing)}; use context=learned")
    return matrix[[index[name] for name in task_names]] * math.sqrt(matrix.shape[1])


class CareEncoder(nn.Module):
    """Experts pooled by attention; the output also contains the context, and the action that experts do not read."""

    table: Tensor

    def __init__(self, cfg: EncoderConfig, shape: layers.NetShape, generator: Generator) -> None:
        """Draw the weights and load the descriptions."""
        super().__init__()
        self.temperature, self.detach_context = cfg.temperature, cfg.detach_context
        if cfg.context == "descriptions":
            self.register_buffer("table", described(shape.task_names).to(generator.device))
        else:
            self.table = TaskCode("embedding", shape.num_tasks, cfg.embedding_dim, generator).table
        self.task_axes = {"table": TaskAxis(0, is_identity=True)}
        self.passed_on = shape.action_dim if cfg.action == "trunk" else 0  # entries at the end of the input
        self.experts = layers.ExpertMlp(cfg.experts, [shape.in_dim - self.passed_on, *cfg.expert_hidden], generator)
        pooled = [cfg.expert_hidden[-1], *cfg.pool_hidden]
        self.pool = layers.mlp(pooled, "relu", generator, init=layers.xavier)[:-1]
        context = [self.table.shape[1], *cfg.context_hidden, cfg.context_dim]
        self.context = layers.mlp(context, "relu", generator, init=layers.xavier)[:-1]
        gate = [cfg.context_dim, *cfg.gate_hidden, cfg.experts]
        is_gated = cfg.attention == "gate"
        self.gate = layers.mlp(gate, "relu", generator, init=layers.xavier)[:-1] if is_gated else None
        self.width = pooled[-1] + cfg.context_dim + self.passed_on

    def attend(self, experts: Tensor, context: Tensor, task: Tensor) -> Tensor:
        """Return weights (E, B) of experts (E, B, D) from the tasks' contexts (K, C); those of a row sum to one."""
        context = context.detach() if self.detach_context else context
        if self.gate is not None:
            logits = rows(self.gate(context), task).t()
        else:
            logits = (experts * rows(context, task)).sum(dim=-1)
        return torch.softmax(logits / self.temperature, dim=0)

    def forward(self, x: Tensor, task: Tensor) -> Tensor:
        """Encode inputs (B, O) of tasks (B,) as [pooled features, context] or [..., action] (B, width)."""
        context: Tensor = self.context(self.table)  # (K, C)
        features = self.experts(x[:, : x.shape[1] - self.passed_on])  # (E, B, D)
        pooled = (self.attend(features, context, task)[:, :, None] * features).sum(dim=0)
        parts = [self.pool(pooled), rows(context, task)]
        if self.passed_on:
            parts.append(x[:, -self.passed_on :])
        return torch.cat(parts, dim=-1)


class Care(nn.Module):
    """The encoder, a perceptron trunk and a head."""

    def __init__(self, cfg: CareConfig, shape: layers.NetShape, generator: Generator) -> None:
        """Draw the weights."""
        super().__init__()
        self.encoder = CareEncoder(cfg, shape, generator)
        widths = [self.encoder.width, *cfg.hidden]
        self.trunk = layers.mlp(widths, cfg.activation, generator, init=layers.xavier)
        self.head = make_head(cfg.heads, widths[-1], shape, generator, layers.xavier)

    def forward(self, x: Tensor, task: Tensor) -> Tensor:
        """Map inputs (B, O) of tasks (B,) to outputs (B, out)."""
        output: Tensor = self.head(self.trunk(self.encoder(x, task)), task)
        return output
