"""Metrics of a run: read from the device once an iteration, then written as one flat row to every writer.

JSONL is always written; TensorBoard and Weights & Biases are optional writers of the same row.
"""

from __future__ import annotations

import os
import time
from collections import deque
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import torch
from torch import Tensor

from polytask.errors import UserError
from polytask.files import JsonLines, LogRow
from polytask.types import EPISODE_METRICS

FILE_NAME = "metrics.jsonl"


def read_tensors(tensors: dict[str, Tensor]) -> dict[str, list[float]]:
    """Bring many small tensors to the host in a single transfer."""
    if not tensors:
        return {}
    flat = torch.cat([tensor.detach().reshape(-1).to(torch.float64) for tensor in tensors.values()]).tolist()
    values = iter(flat)
    return {name: [next(values) for _ in range(tensor.numel())] for name, tensor in tensors.items()}


class EpisodeWindow:
    """Success, return and length per task over the last episodes that ended.

    The environment hands over sums per interval, so the window keeps whole intervals: as few of the latest as hold
    `size` episodes of the task. A task none of whose episodes has ended yet has no value.
    """

    def __init__(self, tasks: tuple[str, ...], size: int, extras: tuple[str, ...] = ()) -> None:
        """Start empty.

        Args:
            tasks: Names of the tasks.
            size: Number of episodes to look back on.
            extras: Sums that the environment keeps besides `EPISODE_METRICS`.
        """
        self.tasks = tasks
        self.size = size
        self.sums = (*EPISODE_METRICS, *extras)
        self._columns = tuple(name for name in self.sums if name != "diverged")
        self._intervals: list[deque[list[float]]] = [deque() for _ in tasks]
        self._diverged = 0.0

    def add(self, sums: dict[str, list[float]]) -> None:
        """Take in the sums of one interval, by task."""
        self._diverged += sum(sums["diverged"])
        for index, intervals in enumerate(self._intervals):
            row = [sums[name][index] for name in self._columns]
            if row[0] > 0:
                intervals.append(row)
            while sum(each[0] for each in intervals) - (intervals[0][0] if intervals else 0.0) >= self.size:
                intervals.popleft()

    def row(self) -> LogRow:
        """Average per task, then over the tasks that have a value."""
        result: LogRow = {}
        for column, name in enumerate(self._columns[1:], start=1):
            values = [self._mean(intervals, column) for intervals in self._intervals]
            known = [value for value in values if value is not None]
            result[name] = sum(known) / len(known) if known else None
            result |= {f"{name}/{task}": value for task, value in zip(self.tasks, values, strict=True)}
        result["diverged"] = int(self._diverged)
        return result

    @staticmethod
    def _mean(intervals: deque[list[float]], column: int) -> float | None:
        episodes = sum(row[0] for row in intervals)
        return sum(row[column] for row in intervals) / episodes if episodes else None

    def state_dict(self) -> dict[str, Any]:
        """Give plain values only."""
        return {"intervals": [list(each) for each in self._intervals], "diverged": self._diverged}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        if len(state["intervals"]) != len(self.tasks):
            raise ValueError(f"{len(state['intervals'])} tasks, not {len(self.tasks)}")
        self._intervals = [deque(list(row) for row in each) for each in state["intervals"]]
        self._diverged = float(state["diverged"])


class MetricsWriter(Protocol):
    """Something that takes a flat row once an iteration."""

    def write(self, row: LogRow) -> None:
        """Write one row."""
        ...

    def close(self) -> None:
        """Flush and let go of files."""
        ...


class TensorBoardWriter:
    """Write each row as one TensorBoard event, twelve times cheaper than one event per number."""

    def __init__(self, path: Path) -> None:
        """Open an event file."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary = Event, Summary
        self._writer = EventFileWriter(str(path))

    def write(self, row: LogRow) -> None:
        """Add one event whose step is the number of frames."""
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in row.items() if value is not None]
        summary = self._summary(value=values)
        self._writer.add_event(self._event(wall_time=time.time(), step=int(row["frames"] or 0), summary=summary))

    def close(self) -> None:
        """Flush and close the event file."""
        self._writer.close()


class WandbWriter:
    """Log to Weights & Biases, offline unless the environment says otherwise."""

    def __init__(self, path: Path, config: dict[str, Any]) -> None:
        """Start a run named as the run directory."""
        import wandb

        mode = os.environ.get("WANDB_MODE", "offline")
        self._run = wandb.init(project="polytask", name=path.name, dir=str(path), config=config, mode=mode)

    def write(self, row: LogRow) -> None:
        """Log one row whose step is the number of frames."""
        known = {name: value for name, value in row.items() if value is not None}
        self._run.log(known, step=int(row["frames"] or 0))

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


class Logger:
    """Hands each row to every writer of a run."""

    def __init__(self, directory: Path, config: dict[str, Any], history: list[LogRow]) -> None:
        """Open the writers that the config asks for; `history` is what an earlier part of the run logged."""
        self._writers: list[MetricsWriter] = [JsonLines(directory / FILE_NAME, history)]
        if config["tensorboard"]:
            self._writers.append(TensorBoardWriter(directory))
        if config["wandb"]:
            self._writers.append(WandbWriter(directory, config))

    def __enter__(self) -> Logger:
        """Return the logger itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every writer."""
        for writer in self._writers:
            writer.close()

    def write(self, row: LogRow) -> None:
        """Write one row everywhere."""
        for writer in self._writers:
            writer.write(row)


def read_metrics(metrics: dict[str, Tensor], episodes: dict[str, Tensor], window: EpisodeWindow) -> LogRow:
    """Read an iteration's tensors, add the ended episodes to the window, and flatten everything into one row.

    Args:
        metrics: The learner's, each a scalar or one value per task.
        episodes: The environment's sums, each (K,).
        window: Updated.
    """
    prefix = "episodes:"  # keeps the two sources apart should they share a name
    numbers = read_tensors({**{prefix + name: episodes[name] for name in window.sums}, **metrics})
    window.add({name: numbers.pop(prefix + name) for name in window.sums})
    row = window.row()
    for name, values in numbers.items():
        if len(values) == 1:
            row[name] = values[0]
        else:
            row |= {f"{name}/{task}": value for task, value in zip(window.tasks, values, strict=True)}
    return row


def check_extras(*, tensorboard: bool, wandb: bool) -> None:
    """Fail before anything is written if a writer's package is missing."""
    for name, is_wanted in (("tensorboard", tensorboard), ("wandb", wandb)):
        if is_wanted and find_spec(name) is None:
            raise UserError(f"{name}=true needs an extra: pip install 'polytask[{name}]'")
