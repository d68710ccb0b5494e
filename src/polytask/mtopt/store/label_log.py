"""The labels of people and of their stand-in, written beside the shards too: without the index they would be lost.

    ROOT/labels.jsonl    one line for every label: place of its episode, task, source, value, time

A line names an episode by its shard and offset, which a rebuilt index finds again. Verdicts of detectors are left out:
a detector can judge again. A store of an older version gets the file, with all labels so far, at its next label.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from polytask.files import can_read, can_write, parse_json
from polytask.mtopt.records import Label

NAME = "labels.jsonl"
_FIELDS = {"shard": str, "offset": int, "task": str, "source": str, "made": float}


class LoggedLabel(NamedTuple):
    """One line of the file."""

    shard: str  # place of the episode
    offset: int
    task: str
    source: str
    value: float | None  # None withdraws the label
    made: float  # s since 1970


def is_logged(source: str) -> bool:
    """Return whether labels of a source are written to the file."""
    return not source.startswith("detector:")


def logged(label: Label, place: tuple[str, int], made: float) -> LoggedLabel:
    """Make the line of a label on the episode at a place."""
    value = None if math.isnan(label.value) else label.value
    return LoggedLabel(*place, label.task, label.source, value, made)


def append(path: Path, labels: Sequence[LoggedLabel], *, durable: bool) -> None:
    """Append lines, in one write.

    Raises:
        UserError: If the system refuses.
    """
    lines = "".join(json.dumps(label._asdict()) + "\n" for label in labels)
    with can_write(path), path.open("ab") as file:
        # The leading line break ends a line that a crash cut off.
        file.write(("\n" if file.tell() else "").encode() + lines.encode())
        file.flush()
        if durable:
            os.fsync(file.fileno())


def read(path: Path) -> tuple[list[LoggedLabel], int]:
    """Read the file, which need not exist; also return the number of lines that cannot be read.

    Raises:
        UserError: If the system refuses.
    """
    if not path.is_file():
        return [], 0
    with can_read(path):
        lines = [line for line in path.read_bytes().splitlines() if line.strip()]
    found = list(_parsed(lines))
    return found, len(lines) - len(found)


def _parsed(lines: Iterable[bytes]) -> Iterable[LoggedLabel]:
    for line in lines:
        row = parse_json(line)
        if not isinstance(row, dict) or any(type(row.get(name)) is not kind for name, kind in _FIELDS.items()):
            continue
        value = row.get("value")
        if value is None or (isinstance(value, float) and 0.0 <= value <= 1.0):
            yield LoggedLabel(row["shard"], row["offset"], row["task"], row["source"], value, row["made"])
