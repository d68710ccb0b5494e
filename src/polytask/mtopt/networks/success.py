"""The success detector's network: the Q-network's trunk without an action, on every view of an outcome."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from polytask.mtopt.config.network import NetworkConfig
from polytask.mtopt.networks.heads import DenseHead
from polytask.mtopt.networks.layers import initialize
from polytask.mtopt.networks.layout import layout_of, picture_size
from polytask.mtopt.networks.q import ImageTrunk
from polytask.nets.task_code import one_hot


class DetectorNetwork(nn.Module):
    """Logits of success from V views and a task.

    All views go through one trunk, which receives the task as the Q-network does. Their features are concatenated, so
    the head knows which view they come from.
    """

    def __init__(self, config: NetworkConfig, tasks: int, views: int, generator: torch.Generator | None = None) -> None:
        """Build for this number of tasks and views, with weights from a generator on the CPU; None: seed 0."""
        super().__init__()
        generator = generator or torch.Generator().manual_seed(0)
        layout = layout_of(config.size)
        self.tasks, self.views, self.autocast = tasks, views, config.autocast
        self.trunk = ImageTrunk(layout, picture_size(config), tasks, generator)
        self.head = DenseHead(self.trunk.features * views, layout.dense, layout.joint_norm)
        initialize(self.head, layout.weight_std, generator)
        with torch.no_grad():
            self.head.out.weight.mul_(0.1)  # first probabilities are near one half: its examples are balanced

    def forward(self, outcome: Tensor, task: Tensor) -> Tensor:
        """Return logits (B,) of views (B, V, S, S, 3) of bytes and tasks (B,)."""
        with torch.autocast(outcome.device.type, torch.bfloat16, enabled=self.autocast):
            image_map = self.trunk.image_part(outcome.flatten(0, 1))  # (B * V, C, H', W')
            vector = one_hot(task, self.tasks).repeat_interleave(self.views, 0).unsqueeze(1)
            features = self.trunk.joint_part(image_map, vector)  # (B * V, 1, F)
            return self.head(features.reshape(len(task), 1, -1)).squeeze(1).float()

    def all_tasks(self, outcome: Tensor) -> Tensor:
        """Return the logits (B, K) of all tasks for views (B, V, S, S, 3); the pictures' half is computed once."""
        with torch.autocast(outcome.device.type, torch.bfloat16, enabled=self.autocast):
            image_map = self.trunk.image_part(outcome.flatten(0, 1))  # (B * V, C, H', W')
            vector = torch.eye(self.tasks, device=outcome.device).expand(len(image_map), -1, -1)  # (B * V, K, K)
            features = self.trunk.joint_part(image_map, vector).unflatten(0, (len(outcome), self.views))
            features = features.transpose(1, 2).flatten(2)  # (B, K, V * F)
            return self.head(features).float()
