"""Start a new run from the networks of a finished one: `polytask train init_from=RUN`.

Networks, target networks and running statistics are taken over, tensor by tensor, wherever name and shape agree.
Optimisers, gradient methods, replay, schedules, worlds and random numbers start anew. Where the two runs have different
numbers of tasks, a tensor that differs in its task axis alone is taken over in part: what belongs to no task (the
columns of a first layer that read observations) and what belongs to a task of the same name (its one-hot column, head,
embedding, statistics). So a task that both runs have starts with the policy it had. With equally many tasks of other
names, the n-th task starts as the n-th task of the finished run.

Running statistics are taken over with the weight of few rows: what hardly varied in the finished run, such as the
heights around a robot on flat ground, may vary much in the new one and must not stay clipped for millions of frames.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from polytask.errors import UserError
from polytask.types import Algo

PARTS = ("net", "target")  # keys of a learner's state that hold networks; running statistics end in "_norm"
UNNAMED = ("learners", "experience", "net")  # levels of the state that say nothing about a tensor
PROGRESS = ("returns",)  # what statistics remember of running episodes, which a new run does not have
BEHIND_CODE = {"embed.weight": 1}  # inputs after the task code: SimbaV2's constant; elsewhere the code comes last
MOST_ROWS = 10_000.0  # that statistics taken over count for, per task
MOST_NAMES = 8  # in one line of a message


@dataclass(frozen=True)
class Initialization:
    """What a run took over from a finished one; plain values, so that a checkpoint can hold it."""

    checkpoint: str
    loaded: list[str] = field(default_factory=list)  # whole tensors
    partly: list[str] = field(default_factory=list)  # tensors of which the rest stays as it was drawn
    fresh: list[str] = field(default_factory=list)  # tensors of the new run that stay as they were drawn
    unused: list[str] = field(default_factory=list)  # tensors of the finished run that fit nowhere
    remark: str = ""  # on tasks whose names differ

    def message(self) -> str:
        """Tell a person, in a few lines, what was loaded and what was not."""
        total = len(self.loaded) + len(self.partly) + len(self.fresh)
        lines = [f"init_from {self.checkpoint}: {len(self.loaded)} of {total} tensors loaded"]
        lines += [f"  loaded in part: {shorten(self.partly)}"] if self.partly else []
        lines += [f"  not loaded, as newly drawn: {shorten(self.fresh)}"] if self.fresh else []
        lines += [f"  not used of the checkpoint: {shorten(self.unused)}"] if self.unused else []
        lines += [f"  {self.remark}"] if self.remark else []
        return "\n".join(lines)


class Tasks(NamedTuple):
    """The tasks of two runs."""

    old: tuple[str, ...]
    new: tuple[str, ...]


def initialize(algo: Algo, tasks: Sequence[str], state: dict[str, Any], source: str) -> Initialization:
    """Take over what fits of a finished run.

    Args:
        algo: The new run's learner, in the state it was built in.
        tasks: The new run's tasks, in order.
        state: The finished run's checkpoint.
        source: Where that came from, for messages.

    Raises:
        UserError: If no layer of any network fits.
    """
    names = Tasks(tuple(state["spec"]["tasks"]), tuple(tasks))
    own = algo.state_dict()
    old = {name: holder[key] for name, holder, key in tensors(state["algo"])}
    found = Initialization(source, remark=remark(names))
    for name, holder, key in tensors(own):
        merged = merge(name, holder[key], old[name], names) if name in old else None
        if merged is None:
            found.fresh.append(name)
            continue
        (found.loaded if merged.whole else found.partly).append(name)
        holder[key] = merged.tensor.clamp_max(MOST_ROWS) if name.endswith("count") else merged.tensor
    taken = {*found.loaded, *found.partly}
    found.unused.extend(name for name in old if name not in taken)
    if not any(name.endswith("weight") for name in taken):
        raise UserError(
            f"init_from: no layer of '{source}' fits this run's networks; it has {shorten(list(old)) or 'none'}, "
            f"needed are {shorten(found.fresh)}"
        )
    algo.load_state_dict(own)
    return found


def tensors(
    state: dict[str, Any], prefix: str = "", *, is_part: bool = False
) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Find the tensors of networks and statistics in a learner's state: a name, the dictionary and the key there."""
    for key, value in state.items():
        name = prefix if key in UNNAMED else f"{prefix}.{key}".lstrip(".")
        if isinstance(value, dict):
            yield from tensors(value, name, is_part=is_part or key in PARTS or str(key).endswith("_norm"))
        elif is_part and isinstance(value, Tensor) and key not in PROGRESS:
            yield name, state, key


class Merged(NamedTuple):
    """A tensor of the new run with what it took over."""

    tensor: Tensor
    whole: bool


def merge(name: str, new: Tensor, old: Tensor, tasks: Tasks) -> Merged | None:
    """Put an old tensor into the shape of a new one, or return None where nothing of it fits."""
    old = old.to(new)
    if new.shape == old.shape:
        # A table says what a task is (an embedding, a description), the largest return what it can pay: with other
        # tasks they must stay this run's own.
        is_foreign = tasks.old != tasks.new and name.endswith(("table", "largest"))
        return None if is_foreign else Merged(old, whole=True)
    axes = [axis for axis, (a, b) in enumerate(zip(new.shape, old.shape, strict=False)) if a != b]
    if new.dim() != old.dim() or len(axes) != 1:
        return None
    axis = axes[0]
    shared = new.shape[axis] - len(tasks.new)  # entries along the axis that belong to no task
    is_input = axis == new.dim() - 1 > 0
    if shared != old.shape[axis] - len(tasks.old) or shared < 0 or (shared > 0 and not is_input):
        return None
    behind = next((count for suffix, count in BEHIND_CODE.items() if name.endswith(suffix)), 0)
    pairs = places(tasks, shared - behind, behind)
    if not pairs:
        return None
    to, source = torch.tensor(pairs, device=new.device).T
    return Merged(new.index_copy(axis, to, old.index_select(axis, source)), whole=False)


def places(tasks: Tasks, before: int, behind: int) -> list[tuple[int, int]]:
    """List where entries of a task axis lie in the new and the old run, with so many of no task on either side."""
    pairs = [(index, index) for index in range(before)]
    pairs += [
        (before + tasks.new.index(task), before + tasks.old.index(task)) for task in tasks.new if task in tasks.old
    ]
    new, old = before + len(tasks.new), before + len(tasks.old)
    return pairs + [(new + index, old + index) for index in range(behind)]


def remark(tasks: Tasks) -> str:
    """Say what becomes of tasks whose names differ."""
    if tasks.old == tasks.new:
        return ""
    if len(tasks.old) == len(tasks.new):
        return "tasks differ: each starts as the task of the same number did"
    known = [task for task in tasks.new if task in tasks.old]
    return f"tasks of both runs: {shorten(known) or 'none'}; what belongs to another task is new"


def shorten(names: Sequence[str]) -> str:
    """List names; where there are too many, those of a module become one, the fullest modules first."""
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
