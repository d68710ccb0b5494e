"""The network of a policy with its normalizer: raw observations in, actions without noise out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from polytask import nets
from polytask.algos.shared.actor_layout import DECODERS
from polytask.errors import UserError, require_known
from polytask.nets import NETS
from polytask.nets.layers import NetShape
from polytask.policies.info import PolicyInfo


class NoiselessActor(nn.Module):
    """Maps raw observations (B, O) of tasks (B,) to actions (B, A); computes in float32."""

    mean: Tensor
    scale: Tensor

    def __init__(self, info: PolicyInfo) -> None:
        """Build the network of a policy. Its weights and statistics are still to be loaded."""
        super().__init__()
        statistics = (len(info.tasks), info.obs_dim)
        shape = NetShape(info.obs_dim, info.out_dim, len(info.tasks), tuple(info.tasks), parts=info.parts)
        self.net = nets.build_shaped(net_config(info.net), shape, torch.Generator().manual_seed(0))
        self.action_dim, self.clip = info.action_dim, info.obs_clip
        self.decode = DECODERS[require_known("decoder", info.decode, DECODERS)]
        self.register_buffer("mean", torch.zeros(statistics))  # (K, O)
        self.register_buffer("scale", torch.ones(statistics))  # (K, O) one over the standard deviation
        self.requires_grad_(False).eval()

    def forward(self, obs: Tensor, task: Tensor) -> Tensor:
        """Return actions (B, A) in [-1, 1]."""
        normalized = ((obs - self.mean[task]) * self.scale[task]).clamp(-self.clip, self.clip)
        return self.decode(self.net(normalized, task), self.action_dim)


def net_config(saved: Mapping[str, Any]) -> Any:
    """Return the config of a network from its saved settings. Settings that it does not have are skipped."""
    schema, _ = NETS[require_known("net", str(saved.get("name")), NETS)]
    known = {name: value for name, value in saved.items() if name in schema.__dataclass_fields__}
    return schema(**known)


def load_weights(actor: NoiselessActor, tensors: Mapping[str, Tensor], source: str) -> None:
    """Load weights and statistics.

    Args:
        actor: The actor.
        tensors: Its state; half-precision numbers become float32.
        source: Name of the file, for messages.

    Raises:
        UserError: If a tensor is missing or has another shape, or is not finite.
    """
    try:
        actor.load_state_dict(dict(tensors))
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise UserError(f"'{source}' does not fit its own description: {reason}") from error
    if bad := [name for name, tensor in actor.state_dict().items() if not tensor.isfinite().all()]:
        raise UserError(f"'{source}' holds non-finite weights ({bad[0]})")
