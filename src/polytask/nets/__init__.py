"""Network architectures: each maps an input (B, O) and task numbers (B,) to an output (B, out).

The same class serves as policy mean, value, Q-function (the caller appends the action to the input) and distributional
critic. A network whose weights must be projected after an optimizer step has a method `after_step()`. If the projection
would change a network that was loaded from one of other tasks, it has a method `after_load()` to prevent this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from polytask.errors import UserError
from polytask.nets import bro, care, film, independent, mlp, moore, paco, ptsl, simba_v2, soft_modular
from polytask.nets.layers import NetShape
from polytask.settings import check_values

NETS: dict[str, tuple[type[Any], Callable[[Any, NetShape, torch.Generator], nn.Module]]] = {
    "mlp": (mlp.MlpConfig, mlp.Mlp),
    "multihead": (mlp.MultiheadConfig, mlp.Mlp),
    "independent": (independent.IndependentConfig, independent.Independent),
    "soft_modular": (soft_modular.SoftModularConfig, soft_modular.SoftModular),
    "care": (care.CareConfig, care.Care),
    "paco": (paco.PacoConfig, paco.Paco),
    "moore": (moore.MooreConfig, moore.Moore),
    "ptsl": (ptsl.PtslConfig, ptsl.Ptsl),
    "film": (film.FilmConfig, film.Film),
    "bro": (bro.BroConfig, bro.Bro),
    "simba_v2": (simba_v2.SimbaV2Config, simba_v2.SimbaV2),
}


def build(
    cfg: object,
    in_dim: int,
    out_dim: int,
    num_tasks: int,
    task_names: Sequence[str] | None = None,
    generator: torch.Generator | None = None,
) -> nn.Module:
    """Build the network that a config describes.

    Args:
        cfg: An instance of one of the config dataclasses in `NETS`.
        in_dim: Width of the input O.
        out_dim: Width of the output.
        num_tasks: Number of tasks K.
        task_names: Names of the tasks, which CARE's descriptions need.
        generator: Source of all initial weights, which are on its device; None means seed 0 on the CPU.
    """
    shape = NetShape(in_dim, out_dim, num_tasks, None if task_names is None else tuple(task_names))
    return build_shaped(cfg, shape, torch.Generator().manual_seed(0) if generator is None else generator)


def build_shaped(cfg: object, shape: NetShape, generator: torch.Generator) -> nn.Module:
    """Build the network that a config describes, for a shape that also tells which part of the input is an action."""
    builders = dict(NETS.values())
    if type(cfg) not in builders:
        raise UserError(f"{type(cfg).__name__} is not the config of a network; known networks: {', '.join(NETS)}")
    check_values(cfg, "net.")
    if shape.task_names is not None and len(shape.task_names) != shape.num_tasks:
        raise UserError(f"{len(shape.task_names)} task names for {shape.num_tasks} tasks; the numbers must be equal")
    return builders[type(cfg)](cfg, shape, generator)


def count_parameters(net: nn.Module) -> int:
    """Return the number of trainable parameters of a network; shared parameters count once."""
    return sum(weight.numel() for weight in net.parameters() if weight.requires_grad)


def parameter_table(
    in_dim: int, action_dim: int, num_tasks: int, task_names: Sequence[str] | None
) -> list[dict[str, str | int]]:
    """Return the parameter counts of every architecture, at its default settings, as a policy and as a state value.

    Returns:
        One row per architecture with the keys name, policy and value.
    """
    rows: list[dict[str, str | int]] = []
    for name, (config, _) in NETS.items():
        policy, value = (
            count_parameters(build(config(), in_dim, width, num_tasks, task_names)) for width in (action_dim, 1)
        )
        rows.append({"name": name, "policy": policy, "value": value})
    return rows
