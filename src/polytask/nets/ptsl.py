"""PTSL, projected task-specific layers: a small layer per task runs in parallel to every layer of a shared trunk.

"Projected Task-Specific Layers for Multi-Task Reinforcement Learning", ICRA 2024 (arXiv 2309.08776).

Differences from the paper: The published code starts D, U and the residual's projection at zero. In some modes most of
them then never get a gradient (`init="released"`). The default starts only the last factor of every branch at zero, so
that the branch has no effect at first but all of it learns. A residual needs equal widths. So with a residual every D,
and the U of every hidden layer, exists even where it saves no parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Generator, Tensor, nn

from polytask.nets import layers
from polytask.nets.care import ATTENTION, CareEncoder, EncoderConfig
from polytask.nets.layers import COUNT, WIDTH
from polytask.nets.ptsl_trunk import Trunk, TrunkConfig
from polytask.nets.task_axes import TaskAxis
from polytask.nets.task_code import CODES, TaskCode
from polytask.settings import setting


@dataclass
class PtslConfig(TrunkConfig, EncoderConfig):
    """Settings of the trunk with task-specific layers, and of its input."""

    name: str = "ptsl"
    base: str = setting(
        "care",
        "input of the trunk: care (output of CARE's encoder) or mlp (input and task code)",
        choices=("mlp", "care"),
    )
    task_code: str = setting(
        "onehot", "with base=mlp, task code in the input: onehot, embedding or none", choices=(*CODES, "none")
    )
    experts: int = setting(4, "with base=care, encoders to pool", **COUNT)
    attention: str = setting("gate", "with base=care, how encoders are weighed: dot or gate", choices=ATTENTION)
    detach_context: bool = setting(
        False, "with base=care, stop the gradient from the attention to the context; the released code does not"
    )
    pool_hidden: list[int] = setting([], "with base=care, widths of the layers after pooling", **WIDTH)


class Ptsl(nn.Module):
    """A trunk with task-specific layers, on top of CARE's encoder or of the input with the task code."""

    def __init__(self, cfg: PtslConfig, shape: layers.NetShape, generator: Generator) -> None:
        """Draw the weights."""
        super().__init__()
        self.encoder: CareEncoder | None = None
        self.task_axes: dict[str, TaskAxis] = {}
        if cfg.base == "care":
            self.encoder = CareEncoder(cfg, shape, generator)
            in_dim = self.encoder.width
        else:
            self.code = TaskCode(cfg.task_code, shape.num_tasks, cfg.embedding_dim, generator)
            in_dim = shape.in_dim + self.code.width
        self.trunk = Trunk(cfg, replace(shape, in_dim=in_dim), generator)
        if self.encoder is None:
            self.task_axes |= self.code.columns("trunk.shared.0.weight", start=shape.in_dim)
            # Without D the layers W_task of the first layer, (K, out, in), read the one-hot code themselves. Their two
            # task axes cannot both be declared, so a run with another number of tasks does not take them over.
            if isinstance(self.trunk.down[0], nn.Linear):
                self.task_axes |= self.code.columns("trunk.down.0.weight", start=shape.in_dim)

    def forward(self, x: Tensor, task: Tensor) -> Tensor:
        """Map inputs (B, O) of tasks (B,) to outputs (B, out)."""
        features = self.encoder(x, task) if self.encoder is not None else self.code.append(x, task)
        output: Tensor = self.trunk(features, task)
        return output
