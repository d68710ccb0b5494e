"""The context of an algorithm: everything that it is built from besides its own config."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from polytask import nets
from polytask.errors import UserError
from polytask.grads import GradConfig, GradMethod, build_for
from polytask.grads.mean import MeanConfig
from polytask.nets.layers import NetShape
from polytask.nets.mlp import MlpConfig
from polytask.parallel.ranks import ALONE, Ranks
from polytask.types import EnvSpec


@dataclass(frozen=True)
class AlgoContext:
    """The environment's spec, the device and the parts chosen for a learner.

    Attributes:
        spec: Sizes, tasks and worlds of the environment.
        device: Device of all tensors.
        net: Config of the network, one of those in `nets.NETS`.
        critic_net: Config of the critic's network; None means the same as `net`.
        grads: Config of the gradient method.
        seed: Seed of all random numbers of the algorithm.
        total_frames: Environment steps of the whole run, for schedules.
        ranks: The processes that train together; `spec` counts the worlds of all of them.
    """

    spec: EnvSpec
    device: torch.device
    net: Any = field(default_factory=MlpConfig)
    critic_net: Any = None
    grads: GradConfig = field(default_factory=MeanConfig)
    seed: int = 0
    total_frames: int = 1_000_000_000
    ranks: Ranks = ALONE

    def __post_init__(self) -> None:
        """Check that every task has a world, because all statistics are per task."""
        if min(self.spec.envs_per_task) < 1:
            raise UserError(f"every task needs at least one world; got {self.spec.envs_per_task}")

    def generator(self, purpose: str, device: torch.device | str | None = None) -> torch.Generator:
        """Build a generator with a separate stream for a purpose; a shared seed would correlate the random numbers."""
        # Hashed to 32 bits, because torch's CPU generator reads no more bits of a seed.
        seed = zlib.crc32(f"{self.seed}/{purpose}".encode())
        return torch.Generator(device or self.device).manual_seed(seed)

    def actor_net(self, out_dim: int, parts: int = 1) -> nn.Module:
        """Build the actor's network; its output has `parts` of different meanings.

        Its input is the observation, or the part of it that a policy may see.
        """
        return self._build(
            self.net, "actor", self._shape(self.spec.actor_dim or self.spec.obs_dim, out_dim, parts=parts)
        )

    def value_net(self, out_dim: int, name: str = "critic", *, action_dim: int = 0) -> nn.Module:
        """Build a critic's network, whose input is the observation and `action_dim` entries of an action.

        Several critics need different names to get different weights.
        """
        net = self.net if self.critic_net is None else self.critic_net
        return self._build(net, name, self._shape(self.spec.obs_dim, out_dim, action_dim))

    def grad_method(self, group: str, generator: torch.Generator) -> GradMethod:
        """Build the gradient method of a parameter group, "actor" or "critic"."""
        return build_for(group, self.grads, self.spec.num_tasks, self.device, generator)

    def _shape(self, in_dim: int, out_dim: int, action_dim: int = 0, parts: int = 1) -> NetShape:
        return NetShape(in_dim + action_dim, out_dim, self.spec.num_tasks, tuple(self.spec.tasks), action_dim, parts)

    def _build(self, cfg: Any, name: str, shape: NetShape) -> nn.Module:
        # Weights are drawn on the CPU, so that a seed gives the same network on every device.
        generator = self.generator(f"nets/{name}", "cpu")
        return nets.build_shaped(cfg, shape, generator).to(self.device)
