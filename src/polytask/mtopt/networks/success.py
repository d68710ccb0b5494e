"""The success detector's network: the Q-network's trunk, without an action, on every view of an outcome."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from polytask.mtopt.config.network import NetworkConfig
from polytask.mtopt.networks.heads import SingleHead
from polytask.mtopt.networks.layers import initialise
from polytask.mtopt.networks.layout import layout_of, picture_size
from polytask.mtopt.networks.q import Trunk


class DetectorNetwork(nn.Module):
    """A logit of success from V views and a task.

    All views go through one trunk, which sees the task as the Q-network does. Their features are laid side by side,
    so the head knows which view showed what.
    """

    def __init__(self, config: NetworkConfig, tasks: int, views: int, generator: torch.Generator) -> None:
        """Build for so many tasks and views, with weights drawn from a generator of the CPU."""
        super().__init__()
        layout = layout_of(config.size)
        self.tasks, self.views, self.autocast = tasks, views, config.autocast
        self.trunk = Trunk(layout, picture_size(config), tasks, generator)
        self.head = SingleHead(self.trunk.features * views, layout.dense, layout.joint_norm)
        initialise(self.head, layout.weight_std, generator)
        with torch.no_grad():
            self.head.out.weight.mul_(0.1)  # starts undecided: its examples are balanced

    def forward(self, outcome: Tensor, task: Tensor) -> Tensor:
        """Return logits (B,) of views (B, V, S, S, 3) of bytes and tasks (B,)."""
        with torch.autocast(outcome.device.type, torch.bfloat16, enabled=self.autocast):
            image_map = self.trunk.image_part(outcome.flatten(0, 1))  # (B * V, C, H', W')
            vector = functional.one_hot(task.long(), self.tasks).float().repeat_interleave(self.views, 0).unsqueeze(1)
            features = self.trunk.joint_part(image_map, vector)  # (B * V, 1, F)
            return self.head(features.reshape(len(task), 1, -1), task).squeeze(1).float()

    def all_tasks(self, outcome: Tensor) -> Tensor:
        """Return the logits (B, K) of all tasks for views (B, V, S, S, 3): the pictures' half is computed once."""
        with torch.autocast(outcome.device.type, torch.bfloat16, enabled=self.autocast):
            image_map = self.trunk.image_part(outcome.flatten(0, 1))  # (B * V, C, H', W')
            vector = torch.eye(self.tasks, device=outcome.device).expand(len(image_map), -1, -1)  # (B * V, K, K)
            features = self.trunk.joint_part(image_map, vector).unflatten(0, (len(outcome), self.views))
            features = features.transpose(1, 2).flatten(2)  # (B, K, V * F)
            task = torch.zeros(len(outcome), dtype=torch.int64, device=outcome.device)  # merged already
            return self.head(features, task).float()
