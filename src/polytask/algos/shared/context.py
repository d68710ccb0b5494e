"""What every algorithm is built from besides its own config."""

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
from polytask.nets.mlp import MlpConfig
from polytask.types import EnvSpec


@dataclass(frozen=True)
class AlgoContext:
    """The surroundings of a learner: its environment's spec, its device and the parts chosen for it.

    Attributes:
        spec: What the environment looks like.
        device: Where everything lives.
        net: Config of the network, one of those in `nets.NETS`.
        critic_net: Config of the critic's network; that of `net` if None.
        grads: Config of the gradient method.
        seed: Seed of all that the algorithm draws.
        total_frames: Environment steps the whole run will take, for schedules.
    """

    spec: EnvSpec
    device: torch.device
    net: Any = field(default_factory=MlpConfig)
    critic_net: Any = None
    grads: GradConfig = field(default_factory=MeanConfig)
    seed: int = 0
    total_frames: int = 1_000_000_000

    def __post_init__(self) -> None:
        """Refuse a task without worlds, which would starve every per-task statistic."""
        if min(self.spec.envs_per_task) < 1:
            raise UserError(f"every task needs at least one world; got {self.spec.envs_per_task}")

    def generator(self, purpose: str, device: torch.device | str | None = None) -> torch.Generator:
        """Make a generator whose stream is this purpose's own; seeds shared by all would correlate what they draw."""
        # Hashed to 32 bits, which is all that torch's generator on the CPU reads of a seed.
        seed = zlib.crc32(f"{self.seed}/{purpose}".encode())
        return torch.Generator(device or self.device).manual_seed(seed)

    def actor_net(self, out_dim: int) -> nn.Module:
        """Build the actor's network on observations."""
        return self._build(self.net, self.spec.obs_dim, out_dim, "actor")

    def value_net(self, in_dim: int, out_dim: int, name: str = "critic") -> nn.Module:
        """Build a critic's network; give each of several its own name."""
        return self._build(self.net if self.critic_net is None else self.critic_net, in_dim, out_dim, name)

    def grad_method(self, group: str, generator: torch.Generator) -> GradMethod:
        """Build the gradient method of a parameter group, "actor" or "critic"; it may draw from the generator."""
        return build_for(group, self.grads, self.spec.num_tasks, self.device, generator)

    def _build(self, cfg: Any, in_dim: int, out_dim: int, name: str) -> nn.Module:
        # Weights are drawn on the CPU, so that a seed means the same network on every device.
        generator = self.generator(f"nets/{name}", "cpu")
        net = nets.build(cfg, in_dim, out_dim, self.spec.num_tasks, self.spec.tasks, generator)
        return net.to(self.device)
