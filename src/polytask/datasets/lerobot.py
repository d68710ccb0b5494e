"""Write episodes in the directory layout of LeRobot data sets, version 3.0, which LeRobot 0.4 reads.

    meta/info.json                              sizes and features
    meta/stats.json                             mean, standard deviation and range of every feature
    meta/tasks.parquet                          sentence -> number of the task
    meta/episodes/chunk-000/file-000.parquet    length, task and position of every episode
    data/chunk-000/file-NNN.parquet             one row per action, with the frame as a PNG file

A row is a frame and the action taken in it. So the frame after the last action is left out. Episodes without actions
are left out too. Frames are stored without loss, not as video.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polytask.datasets.export_folder import export_folder
from polytask.errors import UserError
from polytask.mtopt.learning.sharing import Shared
from polytask.mtopt.records import ACTION_DIM, Episode
from polytask.mtopt.store import png
from polytask.mtopt.store.store import EpisodeStore

IMAGE = "observation.images.shoulder"
_EPISODES_PER_FILE = 500
_ACTION = ("dx", "dy", "dz", "sin_yaw", "cos_yaw", "close", "open", "terminate")
_PLACES = {"data": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"}


def check_pyarrow() -> None:
    """Check that the package of the extra is installed."""
    if find_spec("pyarrow") is None:
        raise UserError("the LeRobot layout needs an extra: pip install 'polytask[export]'")


@dataclass
class _Sums:
    """Running sums of one feature."""

    count: int = 0
    total: NDArray[np.float64] | float = 0.0
    square: NDArray[np.float64] | float = 0.0
    low: NDArray[np.float64] | float = np.inf
    high: NDArray[np.float64] | float = -np.inf

    def add(self, rows: NDArray[Any]) -> None:
        """Add rows (n, ...)."""
        rows = rows.astype(np.float64)
        self.count += len(rows)
        self.total = self.total + rows.sum(0)
        self.square = self.square + np.square(rows).sum(0)
        self.low, self.high = np.minimum(self.low, rows.min(0)), np.maximum(self.high, rows.max(0))

    def result(self) -> dict[str, Any]:
        """Return the statistics of the feature in LeRobot's format."""
        mean = np.atleast_1d(self.total / self.count)
        spread = np.sqrt(np.maximum(np.atleast_1d(self.square / self.count) - mean**2, 0.0))
        low, high = np.atleast_1d(self.low), np.atleast_1d(self.high)
        named = {"min": low, "max": high, "mean": mean, "std": spread}
        return {**{name: value.tolist() for name, value in named.items()}, "count": [self.count]}


@dataclass
class _Dataset:
    """The data set as written so far."""

    root: Path
    tasks: list[str]
    fps: int
    size: tuple[int, ...] = ()  # shape of a frame
    frames: int = 0
    episodes: list[dict[str, Any]] = field(default_factory=list)
    sums: dict[str, _Sums] = field(default_factory=dict)


def to_lerobot(
    store: EpisodeStore, root: Path, shared: Sequence[Shared], sentences: Mapping[str, str], fps: int = 5
) -> int:
    """Export episodes to a data set in the folder `root`, and return its number of frames.

    Args:
        store: The store of the episodes.
        root: Folder to write to. It must not exist.
        shared: The episodes to export, each with a task and the verdict on that task.
        sentences: The sentence that LeRobot uses for a task, by task name. A task without a sentence keeps its name.
        fps: Actions per second.

    Raises:
        UserError: If a package is missing, the folder exists, or there is no episode to write.
    """
    check_pyarrow()
    if root.exists():
        raise UserError(f"'{root}' exists already; name another folder")
    chosen = [one for one in shared if store.row(one.episode).length]
    if not chosen:
        raise UserError("there is no episode with actions to export")
    names = list(dict.fromkeys(one.task for one in chosen))
    dataset = _Dataset(root, names, fps)
    with export_folder(root):
        for number, first in enumerate(range(0, len(chosen), _EPISODES_PER_FILE)):
            _write_data(dataset, store, chosen[first : first + _EPISODES_PER_FILE], number)
        _write_meta(dataset, [sentences.get(name, name) for name in names])
    return dataset.frames


def _write_data(dataset: _Dataset, store: EpisodeStore, group: Sequence[Shared], number: int) -> None:
    """Write one file of whole episodes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    parts = []
    for one in group:
        episode = store.read(one.episode)
        if dataset.size not in ((), episode.images.shape[1:]):
            raise UserError(f"episode {one.episode} has frames {episode.images.shape[1:]}, others have {dataset.size}")
        dataset.size = episode.images.shape[1:]
        columns = _columns(dataset, episode, one)
        for name, values in columns.items():
            dataset.sums.setdefault(name, _Sums()).add(values)
        pixels = episode.images[:-1].reshape(-1, 3, 1, 1) / 255.0  # (pixels, 3, 1, 1), the shape LeRobot scales by
        dataset.sums.setdefault(IMAGE, _Sums()).add(pixels)
        image = [{"bytes": png.encode(frame), "path": None} for frame in episode.images[:-1]]
        arrays = {IMAGE: pa.array(image, pa.struct({"bytes": pa.binary(), "path": pa.string()}))}
        for name, values in columns.items():
            kind = pa.from_numpy_dtype(values.dtype)
            wide = pa.list_(kind, values.shape[-1]) if values.ndim > 1 else kind
            arrays[name] = pa.array(values.tolist(), wide)
        parts.append(pa.table(arrays))
        dataset.episodes.append(_entry(dataset, one, len(episode.actions), number))
        dataset.frames += len(episode.actions)
    path = dataset.root / _place(_PLACES["data"], number)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.concat_tables(parts), path)


def _columns(dataset: _Dataset, episode: Episode, one: Shared) -> dict[str, NDArray[Any]]:
    """Return the columns of an episode's rows, with T entries each. Scalar columns have shape (T,)."""
    steps = len(episode.actions)
    frame = np.arange(steps, dtype=np.int64)
    is_last = frame == steps - 1
    return {
        "observation.state": np.stack([episode.closed[:-1], episode.height[:-1]], 1),  # (T, 2)
        "action": episode.actions,  # (T, 8)
        "next.reward": (is_last & one.success).astype(np.float32),
        "next.done": is_last,
        "next.success": is_last & one.success,
        "timestamp": (frame / dataset.fps).astype(np.float32),
        "frame_index": frame,
        "episode_index": np.full(steps, len(dataset.episodes), np.int64),
        "index": dataset.frames + frame,
        "task_index": np.full(steps, dataset.tasks.index(one.task), np.int64),
    }


def _entry(dataset: _Dataset, one: Shared, steps: int, number: int) -> dict[str, Any]:
    """Return the length, the task and the position of an episode."""
    return {
        "episode_index": len(dataset.episodes),
        "tasks": [one.task],
        "length": steps,
        "data/chunk_index": number // 1000,
        "data/file_index": number % 1000,
        "dataset_from_index": dataset.frames,
        "dataset_to_index": dataset.frames + steps,
        "meta/episodes/chunk_index": 0,
        "meta/episodes/file_index": 0,
    }


def _place(pattern: str, number: int) -> str:
    return pattern.format(chunk_index=number // 1000, file_index=number % 1000)


def _write_meta(dataset: _Dataset, sentences: list[str]) -> None:
    """Write the files of the folder `meta`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    meta = dataset.root / "meta"
    (meta / "episodes" / "chunk-000").mkdir(parents=True)
    words = dict(zip(dataset.tasks, sentences, strict=True))
    entries = [{**entry, "tasks": [words[name] for name in entry["tasks"]]} for entry in dataset.episodes]
    pq.write_table(pa.Table.from_pylist(entries), meta / "episodes" / "chunk-000" / "file-000.parquet")
    tasks = pa.table({"task_index": list(range(len(sentences))), "__index_level_0__": sentences})
    pq.write_table(tasks.replace_schema_metadata({"pandas": json.dumps(_index_note())}), meta / "tasks.parquet")
    (meta / "info.json").write_text(json.dumps(_info(dataset), indent=1) + "\n")
    stats = {name: sums.result() for name, sums in dataset.sums.items()}
    (meta / "stats.json").write_text(json.dumps(stats, indent=1) + "\n")


def _index_note() -> dict[str, Any]:
    """Return the note for pandas that the sentences are the index of the table of tasks, as LeRobot expects."""
    column = {"name": "task_index", "field_name": "task_index", "pandas_type": "int64", "numpy_type": "int64"}
    index = {"name": None, "field_name": "__index_level_0__", "pandas_type": "unicode", "numpy_type": "object"}
    return {
        "index_columns": ["__index_level_0__"],
        "column_indexes": [],
        "columns": [{**column, "metadata": None}, {**index, "metadata": None}],
    }


def _info(dataset: _Dataset) -> dict[str, Any]:
    """Return the content of info.json."""
    features: dict[str, Any] = {IMAGE: _feature("image", dataset.size, ["height", "width", "channels"])}
    features["observation.state"] = _feature("float32", (2,), ["closed", "height"])
    features["action"] = _feature("float32", (ACTION_DIM,), list(_ACTION))
    features |= {name: _feature(kind, (1,), None) for name, kind in _scalars()}
    return {
        "codebase_version": "v3.0",
        "robot_type": "panda",
        "total_episodes": len(dataset.episodes),
        "total_frames": dataset.frames,
        "total_tasks": len(dataset.tasks),
        "chunks_size": 1000,
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200,
        "fps": dataset.fps,
        "splits": {"train": f"0:{len(dataset.episodes)}"},
        "data_path": _PLACES["data"],
        "video_path": None,
        "features": features,
    }


def _feature(kind: str, shape: tuple[int, ...], names: list[str] | None) -> dict[str, Any]:
    return {"dtype": kind, "shape": list(shape), "names": names}


def _scalars() -> Iterator[tuple[str, str]]:
    """Yield the names and types of the scalar features."""
    yield "next.reward", "float32"
    yield "next.done", "bool"
    yield "next.success", "bool"
    yield "timestamp", "float32"
    for name in ("frame_index", "episode_index", "index", "task_index"):
        yield name, "int64"
