"""Policy files: weights and statistics in the safetensors format, with the policy's description in the header.

Such a file holds numbers and text only, so opening one runs no code in it.
"""

from __future__ import annotations

import struct
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from polytask.device import check_device
from polytask.errors import UserError
from polytask.files import can_read, write_atomically
from polytask.plugins.needs import require_plugins
from polytask.policies.actor import NoiselessActor, load_weights
from polytask.policies.info import KEY, PolicyInfo, read_info
from polytask.policies.policy import Policy

SUFFIX = ".safetensors"
STATISTICS = ("mean", "scale")  # these stay float32: half precision would move a narrow observation by its own spread


def save_policy(path: Path, policy: Policy, *, half: bool = False) -> None:
    """Write a policy file, atomically.

    Args:
        path: The file.
        policy: The policy.
        half: Store weights in half precision.
    """
    tensors = {
        name: stored(name, tensor, half).contiguous().cpu() for name, tensor in policy.actor.state_dict().items()
    }
    write_atomically(path, lambda part: save_file(tensors, part, {KEY: policy.info.to_json()}))


def stored(name: str, tensor: Tensor, half: bool) -> Tensor:
    """Return a tensor as it is stored."""
    return tensor.half() if half and tensor.is_floating_point() and name not in STATISTICS else tensor


def open_policy(path: Path, device: torch.device | str = "cpu") -> Policy:
    """Read a policy file.

    Raises:
        UserError: If there is none, or it is damaged.
    """
    info, tensors = _read(path, with_tensors=True)
    require_plugins(info.plugins, path)
    actor = NoiselessActor(info)
    load_weights(actor, tensors, str(path))
    return Policy(info, actor, check_device(str(device)))


def open_info(path: Path) -> PolicyInfo:
    """Read only the description in a policy file."""
    return _read(path, with_tensors=False)[0]


def _read(path: Path, *, with_tensors: bool) -> tuple[PolicyInfo, dict[str, Tensor]]:
    with can_read(path):
        if not path.is_file():
            raise UserError(f"no policy at '{path}'")
        try:
            with safe_open(path, framework="pt") as file:
                text = (file.metadata() or {}).get(KEY)
                tensors = {name: file.get_tensor(name) for name in file.keys()} if with_tensors else {}  # noqa: SIM118
        except (SafetensorError, struct.error) as error:
            raise UserError(f"'{path}' cannot be read: it is damaged or not a safetensors file") from error
    if text is None:
        raise UserError(f"'{path}' is not a polytask policy: its header has no description")
    return read_info(text, path), tensors
