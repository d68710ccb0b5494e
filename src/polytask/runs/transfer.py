"""Initialize a new run with the networks of a finished one: `polytask train init_from=RUN`.

Networks, target networks and running statistics are loaded tensor by tensor, where name and shape are equal.
Optimizers, gradient methods, replay, schedules, worlds and random numbers are not loaded.

If the two runs have different numbers of tasks, a tensor with a task axis is loaded in part. Loaded are the entries of
no task (the columns of a first layer for the observations) and the entries of tasks with the same name (one-hot column,
head, embedding, statistics). So a task of both runs starts with its old policy. If the numbers of tasks are equal but
the names differ, the n-th task starts as the n-th task of the finished run. The networks declare which tensors have a
task axis (`nets.task_axes`).

Loaded running statistics count as at most `init_rows` rows per task, by default 10,000. An input that was almost
constant in the finished run, such as the heights around a robot on flat ground, may vary much in the new one. It must
not stay clipped for millions of frames. Where the worlds are the same, many rows are better: as statistics change, a
policy sees other inputs and acts in another way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from polytask.algos.shared.normalize import TaskNormalizer
from polytask.config.schema import TrainConfig
from polytask.errors import UserError
from polytask.nets.task_axes import TaskAxis, task_axes
from polytask.types import Algo

MOST_NAMES = 8  # largest number of names in one line of a message


@dataclass(frozen=True)
class Initialization:
    """What a run loaded from a finished one. Plain values only, so that a checkpoint can store it."""

    checkpoint: str
    loaded: list[str] = field(default_factory=list)  # tensors that were loaded completely
    partly: list[str] = field(default_factory=list)  # tensors that were loaded in part; the rest is newly initialized
    fresh: list[str] = field(default_factory=list)  # tensors of the new run that are newly initialized
    unused: list[str] = field(default_factory=list)  # tensors of the finished run that do not fit
    remark: str = ""  # about tasks whose names differ
    demonstrations: dict[str, int] | None = None  # episodes of each task that the policy was shown

    def message(self) -> str:
        """Return a few lines that describe what was loaded and what was not."""
        total = len(self.loaded) + len(self.partly) + len(self.fresh)
        lines = [f"init_from {self.checkpoint}: {len(self.loaded)} of {total} tensors loaded"]
        lines += [f"  loaded in part: {shorten(self.partly)}"] if self.partly else []
        lines += [f"  not loaded, newly initialized: {shorten(self.fresh)}"] if self.fresh else []
        lines += [f"  in the checkpoint but not used: {shorten(self.unused)}"] if self.unused else []
        lines += [f"  {self.remark}"] if self.remark else []
        if self.demonstrations:
            lines.append("  the loaded policy was trained with demonstrations, so this one is, too")
        return "\n".join(lines)


@runtime_checkable
class AdaptsLoaded(Protocol):
    """A module whose parameters must be adapted when they come, wholly or in part, from another run."""

    def after_load(self) -> None:
        """Change the parameters in place, so that they serve as they did and are valid in this run."""
        ...


class TaskNames(NamedTuple):
    """The tasks of two runs."""

    old: tuple[str, ...]
    new: tuple[str, ...]


def initialize(
    algo: Algo, tasks: Sequence[str], state: dict[str, Any], source: str, init_rows: int = TrainConfig.init_rows
) -> Initialization:
    """Load the tensors of a finished run that fit.

    Args:
        algo: The algorithm of the new run, as built.
        tasks: The tasks of the new run, in order.
        state: The checkpoint of the finished run.
        source: The path of the checkpoint, for messages.
        init_rows: Largest weight of loaded statistics, in rows per task.

    Raises:
        UserError: If no layer of any network fits.
    """
    names = TaskNames(tuple(state["spec"]["tasks"]), tuple(tasks))
    found = Initialization(source, remark=remark(names), demonstrations=state.get("demonstrations"))
    saved, networks = saved_parts(state["algo"]), algo.networks()
    taken = {part: _take(part, net, saved.get(part, {}), names, found) for part, net in networks.items()}
    for part, tensors in saved.items():
        kept = {*taken.get(part, ()), *(_per_world(networks[part]) if part in networks else ())}
        found.unused.extend(f"{part}.{name}" for name in tensors if name not in kept)
    if not any(name.endswith("weight") for tensors in taken.values() for name in tensors):
        old = [f"{part}.{name}" for part, tensors in saved.items() for name in tensors]
        raise UserError(
            f"init_from: no layer of '{source}' fits the networks of this run; it has {shorten(old) or 'none'}, "
            f"this run needs {shorten(found.fresh)}"
        )
    for part, net in networks.items():
        _load(net, taken[part], init_rows)
    return found


def _take(
    part: str, net: nn.Module, old: dict[str, Tensor], names: TaskNames, found: Initialization
) -> dict[str, Tensor]:
    """Return the tensors of one network that it takes over, and note in `found` what became of each."""
    axes, taken = task_axes(net), dict[str, Tensor]()
    for name, tensor in net.state_dict().items():
        if name in _per_world(net):
            continue
        merged = merge(tensor, old[name], axes.get(name), names) if name in old else None
        if merged is None:
            found.fresh.append(f"{part}.{name}")
        else:
            (found.loaded if merged.whole else found.partly).append(f"{part}.{name}")
            taken[name] = merged.tensor
    return taken


def _per_world(net: nn.Module) -> tuple[str, ...]:
    """Name the tensors of running episodes, which belong to one run only."""
    names: tuple[str, ...] = getattr(net, "per_world", ())
    return names


def saved_parts(state: dict[str, Any]) -> dict[str, dict[str, Tensor]]:
    """Return the networks and statistics in an algorithm's saved state, by the names of `Algo.networks`."""
    parts = {name: learner["net"] for name, learner in state["learners"].items()}
    for holder in (state, state.get("experience", {})):
        parts |= {name: value for name, value in holder.items() if _is_state_dict(value)}
    return parts


def _is_state_dict(value: Any) -> bool:
    """Return whether a value is the state dict of a module: a dictionary of tensors."""
    return isinstance(value, dict) and bool(value) and all(isinstance(each, Tensor) for each in value.values())


def _load(net: nn.Module, taken: dict[str, Tensor], init_rows: int) -> None:
    """Load tensors into a network, limit the weight of its statistics, and let its modules adapt."""
    net.load_state_dict(net.state_dict() | taken)
    for part in net.modules():
        if isinstance(part, TaskNormalizer):
            part.limit_rows(init_rows)
        if isinstance(part, AdaptsLoaded):
            part.after_load()


class Merged(NamedTuple):
    """A tensor of the new run with its loaded entries."""

    tensor: Tensor
    whole: bool


def merge(new: Tensor, old: Tensor, axis: TaskAxis | None, tasks: TaskNames) -> Merged | None:
    """Copy the fitting entries of an old tensor into a new one. Return None if no entry fits."""
    old = old.to(new)
    if new.shape == old.shape:
        is_foreign = tasks.old != tasks.new and axis is not None and axis.is_identity
        return None if is_foreign else Merged(old, whole=True)
    if axis is None or new.dim() != old.dim():
        return None
    others = [index for index in range(new.dim()) if index != axis.axis]
    behind = new.shape[axis.axis] - axis.start - len(tasks.new)  # entries after those of the tasks
    is_same_beside = behind == old.shape[axis.axis] - axis.start - len(tasks.old) and behind >= 0
    if not is_same_beside or any(new.shape[index] != old.shape[index] for index in others):
        return None
    pairs = places(tasks, axis.start, behind)
    if not pairs:
        return None
    to, source = torch.tensor(pairs, device=new.device).T
    return Merged(new.index_copy(axis.axis, to, old.index_select(axis.axis, source)), whole=False)


def places(tasks: TaskNames, before: int, behind: int) -> list[tuple[int, int]]:
    """Return the (new, old) index pairs of the entries of a task axis that both runs have.

    Args:
        tasks: The tasks of both runs.
        before: Number of entries before those of the tasks. They belong to no task.
        behind: Number of entries after those of the tasks. They belong to no task.
    """
    pairs = [(index, index) for index in range(before)]
    pairs += [
        (before + tasks.new.index(task), before + tasks.old.index(task)) for task in tasks.new if task in tasks.old
    ]
    new, old = before + len(tasks.new), before + len(tasks.old)
    return pairs + [(new + index, old + index) for index in range(behind)]


def remark(tasks: TaskNames) -> str:
    """Return a sentence about tasks whose names differ, or an empty string."""
    if tasks.old == tasks.new:
        return ""
    if len(tasks.old) == len(tasks.new):
        return "the tasks differ: each task starts as the task with the same number"
    known = [task for task in tasks.new if task in tasks.old]
    return f"tasks of both runs: {shorten(known) or 'none'}; entries of other tasks are newly initialized"


def shorten(names: Sequence[str]) -> str:
    """List names in one line. If there are too many, combine the names of a module, largest modules first."""
    counts = Counter(names)
    while len(counts) > MOST_NAMES:
        modules = Counter(name.rpartition(".")[0] for name in counts if "." in name)
        if not modules:
            break
        module = max(modules, key=lambda name: (modules[name], name.count(".")))
        merged: Counter[str] = Counter()
        for name, count in counts.items():
            merged[module if name.startswith(f"{module}.") else name] += count
        counts = merged
    labels = [name if name in names else f"{name}.* ({count})" for name, count in counts.items()]
    rest = [f"and {len(labels) - MOST_NAMES} more"] if len(labels) > MOST_NAMES else []
    return ", ".join([*labels[:MOST_NAMES], *rest])
