"""The task axes that networks declare are complete, and correct under a permutation of the tasks."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from torch import nn

from polytask.nets import NETS, build
from polytask.nets.ptsl import PtslConfig
from polytask.nets.task_axes import TaskAxis, task_axes
from polytask.runs.transfer import TaskNames, merge

TASKS = ("reach", "push", "pick-place", "door-open", "drawer-open")
IN_DIM, OUT_DIM = 6, 4
ORDER = torch.tensor([3, 0, 4, 1, 2])  # the n-th task of the permuted network is task ORDER[n]


def variants(name: str) -> list[Any]:
    """Return the default config, and variants with another task code and with other heads."""
    config = NETS[name][0]()
    names = {each.name for each in fields(config)}
    found = [config]
    if name == "ptsl":
        found += [replace(config, residual="sum")]
        found += [replace(config, base="mlp", **own) for own in ({}, {"residual": "sum"}, {"task_code": "embedding"})]
    elif "task_code" in names:
        found.append(replace(config, task_code="embedding"))
    if "heads" in names:
        found += [replace(config, heads=heads) for heads in ("single", "multi") if heads != config.heads]
    return found


ALL = [pytest.param(config, id=f"{name}-{index}") for name in NETS for index, config in enumerate(variants(name))]


def extra_axes(config: Any) -> dict[str, TaskAxis]:
    """Return the second task axes, which cannot be declared: PTSL's first layers without D read the one-hot code."""
    if getattr(config, "base", "") == "mlp" and config.residual == "none" and config.task_code == "onehot":
        return {"trunk.own.0.weight": TaskAxis(2, start=IN_DIM)}
    return {}


def make(config: Any, tasks: tuple[str, ...], seed: int = 0) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    return build(config, IN_DIM, OUT_DIM, len(tasks), tasks, generator)


@pytest.mark.parametrize("config", ALL)
def test_permuting_the_declared_entries_permutes_the_tasks(config: Any) -> None:
    net, permuted = make(config, TASKS), make(config, tuple(TASKS[index] for index in ORDER), seed=1)
    draw = torch.Generator().manual_seed(2)
    for weight in net.parameters():
        weight.data += 0.1 * torch.randn(weight.shape, generator=draw)  # some start at zero and have no effect
    state = net.state_dict()
    for name, (axis, start, _) in (*task_axes(net).items(), *extra_axes(config).items()):
        index = torch.arange(state[name].shape[axis])
        index[start : start + len(TASKS)] = start + ORDER
        state[name] = state[name].index_select(axis, index)
    permuted.load_state_dict(state)
    x, task = torch.randn(20, IN_DIM, generator=draw), torch.arange(20) % len(TASKS)
    torch.testing.assert_close(permuted(x, task), net(x, ORDER[task]))


@pytest.mark.parametrize("config", ALL)
def test_every_tensor_that_grows_with_the_tasks_is_declared(config: Any) -> None:
    few, many = make(config, TASKS[:3]).state_dict(), make(config, TASKS).state_dict()
    axes, extra = task_axes(make(config, TASKS)), extra_axes(config)
    assert axes.keys() <= many.keys()
    for name, tensor in many.items():
        grown = [axis for axis, (a, b) in enumerate(zip(few[name].shape, tensor.shape, strict=True)) if a != b]
        assert grown == [found[name].axis for found in (axes, extra) if name in found], name


def test_a_tensor_with_two_task_axes_is_not_transferred_to_another_number_of_tasks() -> None:
    config = PtslConfig(base="mlp")
    few, many = make(config, TASKS[:3]), make(config, TASKS)
    axes, names = task_axes(many), TaskNames(TASKS[:3], TASKS)
    old, new = few.state_dict(), many.state_dict()
    left = [name for name in new if merge(new[name], old[name], axes.get(name), names) is None]
    assert left == ["trunk.own.0.weight"]
