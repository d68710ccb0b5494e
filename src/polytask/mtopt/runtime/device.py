"""The devices that a run computes on: whether they are there, and how torch uses them."""

from __future__ import annotations

import torch

from polytask.errors import UserError


def prepare(*devices: str) -> None:
    """Insist, before anything is written, that devices are there, and choose torch's settings for them.

    Raises:
        UserError: If one is unknown or not there.
    """
    for device in devices:
        kind, _, index = device.partition(":")
        if kind not in ("cpu", "cuda") or (index and not index.isdecimal()):
            raise UserError(f"unknown device '{device}'; valid: cpu, cuda, cuda:N")
        if kind == "cuda":
            count = torch.cuda.device_count() if torch.cuda.is_available() else 0
            if int(index or 0) >= count:
                found = f"{count} CUDA device(s)" if count else "no CUDA device"
                raise UserError(
                    f"device '{device}' is not there: this machine has {found}; use device=cpu world.device=cpu"
                )
            # TF32: CEM multiplies matrices of all samples; what TF32 would spoil is computed without products.
            torch.set_float32_matmul_precision("high")
