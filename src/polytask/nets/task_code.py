"""Task codes that tell a network the task of a row: a one-hot vector, a learned embedding, or no code."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from polytask.nets.layers import WIDTH, parameter
from polytask.nets.task_axes import TaskAxis
from polytask.settings import setting

CODES = ("onehot", "embedding")


def one_hot(task: Tensor, num_tasks: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Convert task numbers (...) to one-hot rows (..., K), without the device synchronization of torch's `one_hot`."""
    return (task.unsqueeze(-1) == torch.arange(num_tasks, device=task.device)).to(dtype)


def rows(table: Tensor, task: Tensor) -> Tensor:
    """Return each row's entry of a per-task table: (K, C) and (...) give (..., C), (K,) and (...) give (...).

    A product with one-hot rows, because the gradient of an index adds thousands of rows to a few, one by one.
    """
    return torch.matmul(one_hot(task, table.shape[0], table.dtype), table)


def unit_normal(weight: Tensor, generator: Generator) -> None:
    """Draw rows whose expected squared length is one, the length of a one-hot vector."""
    nn.init.normal_(weight, std=1.0 / math.sqrt(weight.shape[-1]), generator=generator)


@dataclass
class TaskCodeConfig:
    """Settings of the task code, for networks that read it with their input."""

    task_code: str = setting("onehot", "task code in the input: onehot, embedding or none", choices=(*CODES, "none"))
    embedding_dim: int = setting(32, "width of a learned embedding", **WIDTH)
    embedding_norm: float = setting(
        math.inf,
        "largest length of a task's learned embedding; a longer one is shortened after each update",
        above=0.0,
        at_most=math.inf,
    )


class TaskCode(nn.Module):
    """A table with one row per task.

    Attributes:
        table: The codes of all tasks. (K, C)
        width: Length C of a code.
    """

    table: Tensor

    def __init__(
        self, kind: str, num_tasks: int, embedding_dim: int, generator: Generator, max_norm: float = math.inf
    ) -> None:
        """Build the table; only a learned embedding has parameters, whose rows are at most `max_norm` long."""
        super().__init__()
        self.kind, self.is_learned, self.max_norm = kind, kind == "embedding", max_norm
        self.task_axes = {"table": TaskAxis(0, is_identity=True)} if self.is_learned else {}
        if self.is_learned:
            self.table = parameter((num_tasks, embedding_dim), generator, unit_normal)
        else:
            width = num_tasks if kind == "onehot" else 0
            codes = torch.eye(num_tasks, device=generator.device)[:, :width]
            self.register_buffer("table", codes, persistent=False)
        self.width = self.table.shape[1]
        self.after_step()

    @classmethod
    def of(cls, cfg: TaskCodeConfig, num_tasks: int, generator: Generator) -> TaskCode:
        """Build the code that the settings of a network describe."""
        return cls(cfg.task_code, num_tasks, cfg.embedding_dim, generator, cfg.embedding_norm)

    @torch.no_grad()
    def after_step(self) -> None:
        """Shorten the embeddings that are too long; must be called after each optimizer step."""
        if self.is_learned and self.max_norm < math.inf:
            lengths = self.table.norm(dim=-1, keepdim=True).clamp_min(1e-12)
            self.table.mul_((self.max_norm / lengths).clamp_max(1.0))

    def forward(self, task: Tensor) -> Tensor:
        """Return the codes (B, C) of tasks (B,)."""
        if self.is_learned:
            return rows(self.table, task)
        return one_hot(task, self.width)

    def columns(self, weight: str, start: int = 0) -> dict[str, TaskAxis]:
        """Return the task axis of a weight (out, in) that reads the code; only one-hot codes have a column per task.

        Args:
            weight: Name of the weight in the state dict.
            start: Number of inputs before the code.
        """
        return {weight: TaskAxis(1, start)} if self.kind == "onehot" else {}

    def append(self, x: Tensor, task: Tensor) -> Tensor:
        """Append the code to the input: (B, O) becomes (B, O + C)."""
        return torch.cat([x, self(task).to(x.dtype)], dim=-1)
