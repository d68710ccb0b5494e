"""The network `gated`: one hidden layer whose features the task switches on and off."""

from dataclasses import dataclass

from torch import Generator, Tensor, nn

import polytask
from polytask.nets import layers
from polytask.nets.task_code import TaskCode
from polytask.settings import setting


@dataclass
class GatedConfig:
    """Settings."""

    name: str = "gated"
    width: int = setting(128, "features of the one hidden layer", within=(1, 65_536))


@polytask.register_net(GatedConfig)
class Gated(nn.Module):
    """One hidden layer, and a gate per task."""

    def __init__(self, cfg: GatedConfig, shape: layers.NetShape, generator: Generator) -> None:
        """Draw the weights."""
        super().__init__()
        self.code = TaskCode("onehot", shape.num_tasks, 0, generator)
        self.hidden = layers.linear(shape.in_dim, cfg.width, generator)
        self.gate = layers.linear(self.code.width, cfg.width, generator)
        self.head = layers.linear(cfg.width, shape.out_dim, generator)
        self.task_axes = self.code.columns("gate.weight")  # one column per task, which `init_from` must know

    def forward(self, x: Tensor, task: Tensor) -> Tensor:
        """Map inputs (B, O) of tasks (B,) to outputs (B, out)."""
        gate = self.gate(self.code.append(x[:, :0], task)).sigmoid()
        return self.head(gate * self.hidden(x).relu())
