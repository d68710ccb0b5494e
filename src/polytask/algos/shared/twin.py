"""Two critics of state and action, the slowly moving target copy of them, and a view for losses that only read them."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from polytask.algos.shared.context import AlgoContext


class TwinCritic(nn.Module):
    """Two networks of the same architecture and different weights."""

    def __init__(self, context: AlgoContext, out_dim: int) -> None:
        """Build both networks, whose input is [observation, action]."""
        super().__init__()
        action_dim = context.spec.action_dim
        nets = [context.value_net(out_dim, f"critic-{i}", action_dim=action_dim) for i in range(2)]
        self.nets = nn.ModuleList(nets)

    def forward(self, obs: Tensor, action: Tensor, task: Tensor) -> Tensor:
        """Map rows (B, O), (B, A) of tasks (B,) to outputs (2, B, out) in float32."""
        x = torch.cat([obs, action], dim=-1)
        return torch.stack([net(x, task).float() for net in self.nets])


def target_of(net: nn.Module) -> nn.Module:
    """Return a copy of a network as target; only `polyak` changes it."""
    return copy.deepcopy(net).requires_grad_(False)


def frozen_view(net: nn.Module) -> nn.Module:
    """Return a network that shares the memory of `net`, so that it changes with it, but has nothing to train.

    For losses that only read a network, such as the actor's, which reads the critics. Compiled kernels compute the
    gradients of every trainable parameter that they read, even if nobody asks for them.
    """
    view = copy.deepcopy(net).requires_grad_(False)
    for own, shared in zip(_tensors(view), _tensors(net), strict=True):
        own.data = shared.data
    return view


def _tensors(net: nn.Module) -> list[Tensor]:
    return [*net.parameters(), *net.buffers()]


@torch.no_grad()
def polyak(target: nn.Module, net: nn.Module, tau: float, encoder_tau: float | None = None) -> None:
    """Move every parameter of the target towards the network's by the share tau, or those of encoders by another."""
    if encoder_tau is None:
        torch._foreach_lerp_(list(target.parameters()), [p.detach() for p in net.parameters()], tau)
        return
    for is_encoder, share in ((False, tau), (True, encoder_tau)):
        names = [name for name, _ in net.named_parameters() if in_encoder(name) == is_encoder]
        if names:
            moved, online = dict(target.named_parameters()), dict(net.named_parameters())
            torch._foreach_lerp_([moved[name] for name in names], [online[name].detach() for name in names], share)


def in_encoder(name: str) -> bool:
    """Return whether a parameter belongs to an encoder: networks name such modules `encoder`, `state_encoder`, ..."""
    return any(part.endswith("encoder") for part in name.split("."))
