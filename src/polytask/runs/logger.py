"""Read the metrics of a run from the device once per iteration, and write them as one flat row to every writer.

The JSONL file is always written. TensorBoard and Weights & Biases are optional writers of the same rows.
"""

from __future__ import annotations

import os
import struct
import time
from collections import deque
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from polytask.errors import UserError
from polytask.files import JsonLines, LogRow, can_write
from polytask.runs.file_names import METRICS_FILE
from polytask.types import EPISODE_METRICS

FILM_TAG = "policy"  # the name of films
RED_GREEN_BLUE = 3  # TensorBoard's number of this colour space


def read_tensors(tensors: dict[str, Tensor]) -> dict[str, list[float]]:
    """Copy many small tensors to the host in a single transfer."""
    if not tensors:
        return {}
    flat = torch.cat([tensor.detach().reshape(-1).to(torch.float64) for tensor in tensors.values()]).tolist()
    values = iter(flat)
    return {name: [next(values) for _ in range(tensor.numel())] for name, tensor in tensors.items()}


class EpisodeWindow:
    """Mean success, return and length per task over the last episodes that ended.

    The environment returns sums per interval, so the window keeps whole intervals. For each task it keeps the smallest
    number of last intervals that contain `size` episodes. A task has no value before its first episode ends.
    """

    def __init__(self, tasks: tuple[str, ...], size: int, extras: tuple[str, ...] = ()) -> None:
        """Create an empty window.

        Args:
            tasks: Names of the tasks.
            size: Number of episodes to average over.
            extras: Sums that the environment keeps in addition to `EPISODE_METRICS`.
        """
        self.tasks = tasks
        self.size = size
        self.sums = (*EPISODE_METRICS, *extras)
        self._columns = tuple(name for name in self.sums if name != "diverged")
        self._intervals: list[deque[list[float]]] = [deque() for _ in tasks]
        self._diverged = 0.0

    def add(self, sums: dict[str, list[float]]) -> None:
        """Add the sums of one interval; each list has one entry per task."""
        self._diverged += sum(sums["diverged"])
        for index, intervals in enumerate(self._intervals):
            row = [sums[name][index] for name in self._columns]
            if row[0] > 0:
                intervals.append(row)
            while sum(each[0] for each in intervals) - (intervals[0][0] if intervals else 0.0) >= self.size:
                intervals.popleft()

    def row(self) -> LogRow:
        """Return the means per task, and their mean over the tasks that have a value."""
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
        """Return the state as plain values."""
        return {"intervals": [list(each) for each in self._intervals], "diverged": self._diverged}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        if len(state["intervals"]) != len(self.tasks):
            raise ValueError(f"{len(state['intervals'])} tasks instead of {len(self.tasks)}")
        if any(len(row) != len(self._columns) for each in state["intervals"] for row in each):
            raise ValueError(f"a row has not the {len(self._columns)} columns {', '.join(self._columns)}")
        self._intervals = [deque([float(value) for value in row] for row in each) for each in state["intervals"]]
        self._diverged = float(state["diverged"])


class MetricsWriter(Protocol):
    """A destination that receives one flat row per iteration."""

    def write(self, row: LogRow) -> None:
        """Write one row."""
        ...

    def close(self) -> None:
        """Flush and close all files."""
        ...


class TensorBoardWriter:
    """Write each row as one TensorBoard event, which is twelve times cheaper than one event per number."""

    def __init__(self, path: Path) -> None:
        """Open an event file."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary = Event, Summary
        self._writer = EventFileWriter(str(path))

    def write(self, row: LogRow) -> None:
        """Write one event. Its step is the number of frames."""
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in row.items() if value is not None]
        summary = self._summary(value=values)
        self._writer.add_event(self._event(wall_time=time.time(), step=int(row["frames"] or 0), summary=summary))

    def show(self, film: Path, frames: int) -> None:
        """Write an animation as a picture, which TensorBoard plays. Its step is the number of frames."""
        content = film.read_bytes()
        width, height = struct.unpack("<HH", content[6:10])  # of a GIF
        picture = self._summary.Image(
            height=height, width=width, colorspace=RED_GREEN_BLUE, encoded_image_string=content
        )
        summary = self._summary(value=[self._summary.Value(tag=FILM_TAG, image=picture)])
        self._writer.add_event(self._event(wall_time=time.time(), step=frames, summary=summary))

    def close(self) -> None:
        """Flush and close the event file."""
        self._writer.close()


class WandbWriter:
    """Log to Weights & Biases, in the mode of the environment variable WANDB_MODE (default: offline)."""

    def __init__(self, path: Path, config: dict[str, Any]) -> None:
        """Start a run in the project, entity and group of the settings."""
        import wandb

        self._video = wandb.Video
        self._run = wandb.init(
            project=config["wandb_project"],
            entity=config["wandb_entity"],
            group=config["wandb_group"],
            name=config["wandb_name"] or name_of(path),
            dir=str(path),
            config=config,
            mode=os.environ.get("WANDB_MODE", "offline"),
        )

    def write(self, row: LogRow) -> None:
        """Log one row. Its step is the number of frames."""
        known = {name: value for name, value in row.items() if value is not None}
        self._run.log(known, step=int(row["frames"] or 0))

    def show(self, film: Path, frames: int) -> None:
        """Log an animation. Its step is the number of frames."""
        self._run.log({FILM_TAG: self._video(str(film), format="gif")}, step=frames)

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


def name_of(directory: Path) -> str:
    """Return a name for a run: that of its folder, and of a sweep's seed also the setting's."""
    own, above = directory.resolve().name, directory.resolve().parent.name
    return f"{above}/{own}" if own.startswith("seed-") else own


class Logger(AbstractContextManager["Logger"]):
    """Write each row with every writer of a run."""

    def __init__(self, directory: Path, config: dict[str, Any], history: list[LogRow]) -> None:
        """Open the writers that the config selects. `history` contains the rows of an earlier part of the run."""
        self._directory = directory
        self._screens: list[TensorBoardWriter | WandbWriter] = []  # that show films, too
        with can_write(directory):
            if config["tensorboard"]:
                self._screens.append(TensorBoardWriter(directory))
            if config["wandb"]:
                self._screens.append(WandbWriter(directory, config))
        self._writers: list[MetricsWriter] = [JsonLines(directory / METRICS_FILE, history), *self._screens]

    def __exit__(self, *exception: object) -> None:
        """Close every writer."""
        with can_write(self._directory):
            for writer in self._writers:
                writer.close()

    def write(self, row: LogRow) -> None:
        """Write one row with every writer."""
        with can_write(self._directory):
            for writer in self._writers:
                writer.write(row)

    def show(self, film: Path, frames: int) -> None:
        """Show a film of the policy after so many frames, where films can be shown."""
        with can_write(self._directory):
            for screen in self._screens:
                screen.show(film, frames)


def read_metrics(metrics: dict[str, Tensor], episodes: dict[str, Tensor], window: EpisodeWindow) -> LogRow:
    """Read the tensors of an iteration, add the ended episodes to the window, and return everything as one flat row.

    Args:
        metrics: Metrics of the learner, each a scalar or one value per task.
        episodes: Sums of the environment, each (K,).
        window: The window, which is updated.
    """
    prefix = "episodes:"  # so that equal names of the two sources do not collide
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
    """Check that the packages of the selected writers are installed."""
    for name, is_wanted in (("tensorboard", tensorboard), ("wandb", wandb)):
        if is_wanted and find_spec(name) is None:
            raise UserError(f"{name}=true needs an extra: pip install 'polytask[{name}]'")
