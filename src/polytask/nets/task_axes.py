"""Declarations of the tensors that have one entry per task.

They let a run with other tasks start from a saved network: it copies the parameters that belong to no task, and those
of the tasks that both runs have. A module declares its tensors in an attribute `task_axes`, by their names in the
state dict.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import nn


class TaskAxis(NamedTuple):
    """Position of the tasks in a tensor: K entries along one axis, one for each task in order."""

    axis: int
    start: int = 0  # index of the first task's entry; entries before it and after the last task's belong to no task
    is_identity: bool = False  # entries identify a task or its rewards, so a task of another name must not use them


def task_axes(module: nn.Module) -> dict[str, TaskAxis]:
    """Collect the declarations of a module and of all modules inside it, by the names of its state dict."""
    found: dict[str, TaskAxis] = {}
    for prefix, part in module.named_modules():
        for name, axis in getattr(part, "task_axes", {}).items():
            found[f"{prefix}.{name}" if prefix else name] = axis
    return found
