"""Write data sets in the layout of LeRobot, version 3.0, which LeRobot 0.4 reads.

    meta/info.json                              sizes and features
    meta/stats.json                             mean, standard deviation, range and quantiles of every feature
    meta/tasks.parquet                          sentence -> number of the task
    meta/episodes/chunk-000/file-000.parquet    length, task and position of every episode
    data/chunk-000/file-NNN.parquet             one row per frame, with its pictures as PNG files

Pictures are stored without loss, not as video. What a row means is up to the caller: `collect_lerobot.py` writes the
episodes of `polytask collect`, `mtopt_lerobot.py` those of MT-Opt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polytask.datasets.lerobot_stats import PictureStats, RowStats
from polytask.errors import UserError
from polytask.mtopt.store import png

VERSION = "v3.0"
INFO, TASKS = "meta/info.json", "meta/tasks.parquet"
EPISODES = "meta/episodes/chunk-000/file-000.parquet"
DATA = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
SENTENCE = "__index_level_0__"  # column of the sentences: LeRobot's table of tasks is a pandas table that they index
_CHUNK = 1000  # files in a folder
_FILE_BYTES = 100 * 2**20  # of pictures and numbers, after which the next data file begins

Columns = Mapping[str, NDArray[Any]]  # name -> (T,) or (T, D)
Pictures = Mapping[str, NDArray[np.uint8]]  # name -> (T, H, W, 3)


def check_pyarrow() -> None:
    """Check that the package of the extra is installed."""
    if find_spec("pyarrow") is None:
        raise UserError("tables of data sets need an extra: pip install 'polytask[export]'")


@dataclass(frozen=True)
class About:
    """What a data set says about itself."""

    robot: str
    fps: int  # rows per second
    names: Mapping[str, Sequence[str]]  # feature of several numbers -> what each of them is


class LeRobotWriter:
    """Writes episodes one after the other; the data set can be read after `close`."""

    def __init__(self, root: Path, about: About) -> None:
        """Write to the folder `root`, which exists."""
        self.root, self.about = root, about
        self.frames = 0
        self._features: dict[str, dict[str, Any]] = {}
        self._rows: dict[str, RowStats] = {}
        self._pictures: dict[str, PictureStats] = {}
        self._tasks: list[str] = []  # sentences
        self._episodes: list[dict[str, Any]] = []
        self._waiting: list[Any] = []  # tables of the next data file
        self._bytes = 0  # of those tables
        self._file = 0

    def add(self, sentence: str, columns: Columns, pictures: Pictures) -> None:
        """Add one episode of T rows.

        Args:
            sentence: The task, in words.
            columns: The numbers.
            pictures: The pictures of each camera, by the name of the feature.

        Raises:
            UserError: If an array has another shape or type than in the first episode.
        """
        count = len(next(iter(columns.values())))
        if sentence not in self._tasks:
            self._tasks.append(sentence)
        frame = np.arange(count, dtype=np.int64)
        numbers = {
            **columns,
            "timestamp": (frame / self.about.fps).astype(np.float32),
            "frame_index": frame,
            "episode_index": np.full(count, len(self._episodes), np.int64),
            "index": self.frames + frame,
            "task_index": np.full(count, self._tasks.index(sentence), np.int64),
        }
        self._check(numbers, pictures)
        for name, rows in numbers.items():
            self._rows.setdefault(name, RowStats()).add(rows)
        for name, frames in pictures.items():
            self._pictures.setdefault(name, PictureStats()).add(frames)
        table = _table(numbers, pictures)
        if self._waiting and self._bytes + table.nbytes > _FILE_BYTES:
            self._flush()
        self._waiting.append(table)
        self._bytes += table.nbytes
        self._episodes.append(self._entry(sentence, count))
        self.frames += count

    def close(self) -> None:
        """Write the last data file and the folder `meta`."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._flush()
        path = self.root / EPISODES
        path.parent.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(self._episodes), path)
        tasks = pa.table({"task_index": list(range(len(self._tasks))), SENTENCE: self._tasks})
        pq.write_table(tasks.replace_schema_metadata({"pandas": json.dumps(_index_note())}), self.root / TASKS)
        stats = {name: one.result() for name, one in self._rows.items()}
        stats |= {name: one.result() for name, one in self._pictures.items()}
        (self.root / "meta" / "stats.json").write_text(json.dumps(stats, indent=1) + "\n")
        (self.root / INFO).write_text(json.dumps(self._info(), indent=1) + "\n")

    def _check(self, numbers: Columns, pictures: Pictures) -> None:
        """Compare the features of an episode with those of the data set; the first episode decides."""
        found = {name: _feature("image", frames.shape[1:], _AXES) for name, frames in pictures.items()}
        for name, rows in numbers.items():
            found[name] = _feature(str(rows.dtype), rows.shape[1:] or (1,), self.about.names.get(name))
        self._features = self._features or found
        for name in {**self._features, **found}:
            first, now = self._features.get(name), found.get(name)
            if first != now:
                raise UserError(
                    f"episode {len(self._episodes)} has {_said(now)} for {name}, earlier ones have {_said(first)}"
                )

    def _flush(self) -> None:
        """Write the waiting episodes as one data file."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not self._waiting:
            return
        path = self.root / DATA.format(chunk_index=self._file // _CHUNK, file_index=self._file % _CHUNK)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.concat_tables(self._waiting), path)
        self._waiting, self._bytes, self._file = [], 0, self._file + 1

    def _entry(self, sentence: str, count: int) -> dict[str, Any]:
        """Return the length, the task and the position of an episode."""
        return {
            "episode_index": len(self._episodes),
            "tasks": [sentence],
            "length": count,
            "data/chunk_index": self._file // _CHUNK,
            "data/file_index": self._file % _CHUNK,
            "dataset_from_index": self.frames,
            "dataset_to_index": self.frames + count,
            "meta/episodes/chunk_index": 0,
            "meta/episodes/file_index": 0,
        }

    def _info(self) -> dict[str, Any]:
        """Return the content of info.json."""
        return {
            "codebase_version": VERSION,
            "robot_type": self.about.robot,
            "total_episodes": len(self._episodes),
            "total_frames": self.frames,
            "total_tasks": len(self._tasks),
            "chunks_size": _CHUNK,
            "data_files_size_in_mb": _FILE_BYTES >> 20,
            "video_files_size_in_mb": 200,
            "fps": self.about.fps,
            "splits": {"train": f"0:{len(self._episodes)}"},
            "data_path": DATA,
            "video_path": None,
            "features": self._features,
        }


_AXES = ("height", "width", "channels")


def _feature(kind: str, shape: Sequence[int], names: Sequence[str] | None) -> dict[str, Any]:
    return {"dtype": kind, "shape": list(shape), "names": None if names is None else list(names)}


def _said(feature: Mapping[str, Any] | None) -> str:
    return "nothing" if feature is None else f"{feature['dtype']} {tuple(feature['shape'])}"


def _table(numbers: Columns, pictures: Pictures) -> Any:
    """Return the rows of an episode as a table of pyarrow."""
    import pyarrow as pa

    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    arrays = {
        name: pa.array([{"bytes": png.encode(frame), "path": None} for frame in frames], kind)
        for name, frames in pictures.items()
    }
    for name, rows in numbers.items():
        flat = pa.array(np.ascontiguousarray(rows).reshape(-1))
        arrays[name] = flat if rows.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, rows.shape[1])
    return pa.table(arrays)


def _index_note() -> dict[str, Any]:
    """Return the note for pandas that the sentences are the index of the table of tasks, as LeRobot expects."""
    column = {"name": "task_index", "field_name": "task_index", "pandas_type": "int64", "numpy_type": "int64"}
    index = {"name": None, "field_name": SENTENCE, "pandas_type": "unicode", "numpy_type": "object"}
    return {
        "index_columns": [SENTENCE],
        "column_indexes": [],
        "columns": [{**column, "metadata": None}, {**index, "metadata": None}],
    }
