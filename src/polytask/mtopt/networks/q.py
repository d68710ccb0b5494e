"""The Q-network: the probability that a task succeeds in the end if this action is taken in this state."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from polytask.errors import require_known
from polytask.mtopt.config.network import HEADS, NetworkConfig
from polytask.mtopt.networks.heads import DenseHead, PerTaskHeads
from polytask.mtopt.networks.layers import MergedConv, initialize, map_norm, normalize_image, stack, vector_layers
from polytask.mtopt.networks.layout import Conv, Layout, Size, layout_of, maps_after, merges_by_place, picture_size
from polytask.mtopt.networks.located import ImageFeatures, LocatedTrunk
from polytask.nets.task_code import one_hot

HEIGHT_SCALE = 5.0  # 1/m: gives heights of 0 to 0.4 m the scale of the other inputs


class ImageTrunk(nn.Module):
    """Layers from a picture and a vector to the last map; many vectors can share the picture's half."""

    def __init__(self, layout: Layout, image_size: Size, vector: int, generator: torch.Generator) -> None:
        """Build for pictures of this height and width and vectors of width `vector`, with random weights."""
        super().__init__()
        self.image_size = image_size
        (channels, merge), (final, last) = maps_after(image_size, layout.image, layout.joint)
        first = layout.joint[0]
        assert isinstance(first, Conv), "the merge is folded into a convolution"
        self.image = stack(layout.image, 3, layout.image_norm)
        # One linear layer on the concatenated inputs equals the sum of one linear layer per input.
        self.vector = vector_layers(vector, layout.vector, channels, layout.vector_norm)
        self.merge = MergedConv(first, channels, merge, bias=layout.joint_norm == "none")
        self.after_merge = nn.Sequential(map_norm(layout.joint_norm, first.channels), nn.ReLU(inplace=True))
        self.joint = stack(layout.joint[1:], first.channels, layout.joint_norm)
        self.features = final * last[0] * last[1]
        initialize(self, layout.weight_std, generator)

    def image_part(self, image: Tensor) -> Tensor:
        """Compute the map (B, C, H', W') that depends on pictures (B, H, W, 3) of bytes alone."""
        return self.merge.image_half(self.image(normalize_image(image, self.image_size)))

    def joint_part(self, image_map: Tensor, vector: Tensor) -> Tensor:
        """Merge S vectors (B, S, D) with each image's map; return features (B, S, F)."""
        batch, samples = vector.shape[:2]
        embedded = self.vector(vector.flatten(0, 1)).unflatten(0, (batch, samples))  # (B, S, C)
        maps = self.joint(self.after_merge(self.merge(image_map, embedded)))  # (B * S, C, h, w)
        return maps.permute(0, 2, 3, 1).reshape(batch, samples, -1)


class QNetwork(nn.Module):
    """Logits of success from picture, gripper, height, task and action."""

    def __init__(self, config: NetworkConfig, tasks: int, generator: torch.Generator | None = None) -> None:
        """Build for this number of tasks.

        Args:
            config: Size, heads and merge.
            tasks: Number of tasks.
            generator: Source of the first weights, on the CPU; None: a new one with seed 0.

        Raises:
            UserError: If the size, the heads or the merge do not exist, or the pictures are too small.
        """
        super().__init__()
        require_known("heads", config.heads, HEADS)
        generator = generator or torch.Generator().manual_seed(0)
        layout = layout_of(config.size)
        self.tasks, self.is_multi, self.autocast = tasks, config.heads == "multi", config.autocast
        self.action = config.action
        vector = config.action.size + 2 + (0 if self.is_multi else tasks)
        self.trunk: ImageTrunk | LocatedTrunk
        if merges_by_place(config):
            self.trunk = LocatedTrunk(layout, config, vector, generator)
        else:
            self.trunk = ImageTrunk(layout, picture_size(config), vector, generator)
        self.head: DenseHead | PerTaskHeads
        if self.is_multi:
            self.head = PerTaskHeads(self.trunk.features, layout.dense, tasks, generator)
        else:
            self.head = DenseHead(self.trunk.features, layout.dense, layout.joint_norm)
            initialize(self.head, layout.weight_std, generator)
        self.head.start_low()

    def image_part(self, image: Tensor) -> Tensor | ImageFeatures:
        """Compute the part that depends on the pictures (B, H, W, 3) alone, once for all actions."""
        with torch.autocast(image.device.type, torch.bfloat16, enabled=self.autocast):
            return self.trunk.image_part(image)

    def action_part(
        self,
        image_map: Tensor | ImageFeatures,
        closed: Tensor,
        height: Tensor,
        task: Tensor,
        action: Tensor,
        pose: Tensor | None = None,
    ) -> Tensor:
        """Score S actions (B, S, A) in each state; return logits (B, S).

        Args:
            image_map: What `image_part` returned.
            closed: (B,) 1 where the gripper is closed.
            height: (B,) of the fingertips above the bin's floor, m.
            task: (B,) index.
            action: (B, S, A), as the configuration's `action` says.
            pose: (B, 3) commanded x, y (m) and yaw (rad) of the hand; only a merge by place needs it.
        """
        state = torch.stack((closed.to(action.dtype), height.to(action.dtype) * HEIGHT_SCALE), -1)  # (B, 2)
        if not self.is_multi:
            state = torch.cat((state, one_hot(task, self.tasks).to(action.dtype)), -1)
        vector = torch.cat((action, state.unsqueeze(1).expand(-1, action.shape[1], -1)), -1)  # (B, S, A + 2 + K)
        with torch.autocast(action.device.type, torch.bfloat16, enabled=self.autocast):
            if isinstance(self.trunk, LocatedTrunk):
                assert isinstance(image_map, ImageFeatures)
                features = self.trunk.joint_part(image_map, vector, action, pose, height)
            else:
                assert isinstance(image_map, Tensor)
                features = self.trunk.joint_part(image_map, vector)
            return self.head(features, task).float()

    def forward(
        self,
        image: Tensor,
        closed: Tensor,
        height: Tensor,
        task: Tensor,
        action: Tensor,
        pose: Tensor | None = None,
    ) -> Tensor:
        """Return logits (B, S) of actions (B, S, A); see `action_part`."""
        return self.action_part(self.image_part(image), closed, height, task, action, pose)
