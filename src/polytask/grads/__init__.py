"""Gradient methods: rules that combine the gradients of all tasks into one.

To add a method, write one module with a config dataclass and a class, and add one line to `GRADS`.
"""

from __future__ import annotations

import torch

from polytask.grads.aligned_mtl import AlignedMTL, AlignedMTLConfig
from polytask.grads.backward import Backward
from polytask.grads.cagrad import CAGrad, CAGradConfig
from polytask.grads.famo import FAMO, FAMOConfig
from polytask.grads.imtl_g import IMTLG, IMTLGConfig
from polytask.grads.mean import Mean, MeanConfig
from polytask.grads.method import GradConfig, GradMethod
from polytask.grads.mgda import MGDA, MGDAConfig
from polytask.grads.nash_mtl import NashMTL, NashMTLConfig
from polytask.grads.pcgrad import PCGrad, PCGradConfig
from polytask.grads.uncertainty import Uncertainty, UncertaintyConfig
from polytask.grads.upgrad import UPGrad, UPGradConfig
from polytask.settings import check_values

__all__ = ["GRADS", "Backward", "GradConfig", "GradMethod", "build", "build_for"]

GRADS: dict[str, tuple[type[GradConfig], type[GradMethod]]] = {
    "mean": (MeanConfig, Mean),
    "pcgrad": (PCGradConfig, PCGrad),
    "cagrad": (CAGradConfig, CAGrad),
    "famo": (FAMOConfig, FAMO),
    "mgda": (MGDAConfig, MGDA),
    "upgrad": (UPGradConfig, UPGrad),
    "imtl_g": (IMTLGConfig, IMTLG),
    "aligned_mtl": (AlignedMTLConfig, AlignedMTL),
    "nash_mtl": (NashMTLConfig, NashMTL),
    "uncertainty": (UncertaintyConfig, Uncertainty),
}


def build(cfg: GradConfig, num_tasks: int, device: torch.device, generator: torch.Generator) -> GradMethod:
    """Build the method that a config belongs to."""
    check_values(cfg, "grads.")
    return dict(GRADS.values())[type(cfg)](cfg, num_tasks, device, generator)


def build_for(
    group: str, cfg: GradConfig, num_tasks: int, device: torch.device, generator: torch.Generator
) -> GradMethod:
    """Build the method for a parameter group, "actor" or "critic"; a group outside `apply_to` uses the mean."""
    check_values(cfg, "grads.")  # also if the group does not use it
    applies = cfg.apply_to in (group, "both")
    own = cfg if applies else MeanConfig(conflicts_every=cfg.conflicts_every)
    return build(own, num_tasks, device, generator)
