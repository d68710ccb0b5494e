"""Metrics of a run: read from the device once an iteration, then written as one flat record to every writer.

JSONL is always written; TensorBoard and Weights & Biases are optional writers of the same record.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections import deque
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import torch
from torch import Tensor

from polytask.runs.checkpoint import write_atomically
from polytask.errors import UserError

Record = dict[str, float | int | None]

FILE_NAME = "metrics.jsonl"
# The sums that every environment keeps over the episodes that ended, each (K,); a domain may add its own.
EPISODE_SUMS = ("episodes", "success", "success_at_end", "return", "length", "diverged")


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
            extras: Sums that the environment keeps besides `EPISODE_SUMS`.
        """
        self.tasks = tasks
        self.size = size
        self.sums = (*EPISODE_SUMS, *extras)
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

    def record(self) -> Record:
        """Average per task, then over the tasks that have a value."""
        result: Record = {}
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


class Writer(Protocol):
    """Something that takes a flat record once an iteration."""

    def write(self, record: Record) -> None:
        """Write one record."""
        ...

    def close(self) -> None:
        """Flush and let go of files."""
        ...


class JsonlWriter:
    """Append one JSON object a line; what is written survives a crash."""

    def __init__(self, path: Path, keep: list[Record]) -> None:
        """Begin the file with the records of an earlier part of the run, if any."""
        text = "".join(json.dumps(clean(record)) + "\n" for record in keep)
        write_atomically(path, lambda temporary: temporary.write_text(text))
        self._file = path.open("a")

    def write(self, record: Record) -> None:
        """Append and flush."""
        self._file.write(json.dumps(clean(record)) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class TensorBoardWriter:
    """Write each record as one TensorBoard event, twelve times cheaper than one event per number."""

    def __init__(self, path: Path) -> None:
        """Open an event file."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary = Event, Summary
        self._writer = EventFileWriter(str(path))

    def write(self, record: Record) -> None:
        """Add one event whose step is the number of frames."""
        values = [
            self._summary.Value(tag=name, simple_value=value) for name, value in record.items() if value is not None
        ]
        summary = self._summary(value=values)
        self._writer.add_event(self._event(wall_time=time.time(), step=int(record["frames"] or 0), summary=summary))

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

    def write(self, record: Record) -> None:
        """Log one record whose step is the number of frames."""
        known = {name: value for name, value in record.items() if value is not None}
        self._run.log(known, step=int(record["frames"] or 0))

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


class Logger:
    """Hands each record to every writer of a run."""

    def __init__(self, directory: Path, config: dict[str, Any], history: list[Record]) -> None:
        """Open the writers that the config asks for; `history` is what an earlier part of the run logged."""
        self._writers: list[Writer] = [JsonlWriter(directory / FILE_NAME, history)]
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

    def write(self, record: Record) -> None:
        """Write one record everywhere."""
        for writer in self._writers:
            writer.write(record)


def read_metrics(metrics: dict[str, Tensor], episodes: dict[str, Tensor], window: EpisodeWindow) -> Record:
    """Read an iteration's tensors, add the ended episodes to the window, and flatten everything into one record.

    Args:
        metrics: The learner's, each a scalar or one value per task.
        episodes: The environment's sums, each (K,).
        window: Updated.
    """
    prefix = "episodes:"  # keeps the two sources apart should they share a name
    numbers = read_tensors({**{prefix + name: episodes[name] for name in window.sums}, **metrics})
    window.add({name: numbers.pop(prefix + name) for name in window.sums})
    record = window.record()
    for name, values in numbers.items():
        if len(values) == 1:
            record[name] = values[0]
        else:
            record |= {f"{name}/{task}": value for task, value in zip(window.tasks, values, strict=True)}
    return record


def check_extras(*, tensorboard: bool, wandb: bool) -> None:
    """Fail before anything is written if a writer's package is missing."""
    for name, is_wanted in (("tensorboard", tensorboard), ("wandb", wandb)):
        if is_wanted and find_spec(name) is None:
            raise UserError(f"{name}=true needs an extra: pip install 'polytask[{name}]'")


def clean(value: Any) -> Any:
    """Replace what JSON cannot say (NaN, infinity) by null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: clean(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [clean(each) for each in value]
    return value


def read_records(run_dir: Path, until: int | None = None) -> list[Record]:
    """Read the records of a run up to an iteration; a line cut off by a kill ends them."""
    path = run_dir / FILE_NAME
    records: list[Record] = []
    for line in path.read_text().splitlines() if path.is_file() else []:
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            break
        if until is not None and record["iteration"] > until:
            break
        records.append(record)
    return records
