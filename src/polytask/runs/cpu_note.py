"""A note for runs on the CPU whose settings are meant for a GPU."""

from __future__ import annotations

import torch

from polytask.algos.shared.off_policy import OffPolicyConfig
from polytask.config.presets import presets
from polytask.config.schema import TrainConfig


def cpu_note(config: TrainConfig, device: torch.device) -> str | None:
    """Return a line that names the preset for CPUs, if an off-policy algorithm has its own large batch on the CPU.

    A batch that the user or a preset chose is not questioned.
    """
    algo, name = config.algo, config.algo.name
    if device.type != "cpu" or not isinstance(algo, OffPolicyConfig) or algo.batch != type(algo).batch:
        return None
    preset = f"{name}_cpu"
    if preset not in presets():
        return None
    slow = f"algo.batch={algo.batch}, the default of {name}, is meant for a GPU and slow on the CPU"
    return f"{slow}; preset={preset} has settings for CPUs, and the words of this command go with it"
