"""Which tensors of a network run over the tasks, declared by the networks themselves.

A run with other tasks can then take over what belongs to no task, and what belongs to a task that both runs have. A
module declares its tensors in an attribute `task_axes`, by their names in its state dict.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import nn


class TaskAxis(NamedTuple):
    """Where the tasks lie in a tensor: K entries along one axis, one for each task in order."""

    axis: int
    start: int = 0  # the first task's entry; entries before it and after the last task's belong to no task
    is_identity: bool = False  # the entries say what a task is or pays: they must not serve a task of another name


def task_axes(module: nn.Module) -> dict[str, TaskAxis]:
    """Collect what a module and all modules inside it declare, by the names of its state dict."""
    found: dict[str, TaskAxis] = {}
    for prefix, part in module.named_modules():
        for name, axis in getattr(part, "task_axes", {}).items():
            found[f"{prefix}.{name}" if prefix else name] = axis
    return found
