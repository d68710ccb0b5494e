"""Export a data set to Minari, one Minari data set per task, for offline-learning libraries."""

from __future__ import annotations

import copy
import errno
import os
import re
import shutil
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from polytask.datasets.export_folder import export_folder
from polytask.errors import UserError
from polytask.runs.episode_data import EpisodeDataset, load

_VARIABLE = "MINARI_DATASETS_PATH"
_AT_ONCE = 256  # episodes held in memory
_BYTES_PER_EPISODE = 1 << 15  # more than HDF5 needs besides the data


def check_minari() -> None:
    """Check that the packages of the extra are installed."""
    if find_spec("minari") is None or find_spec("h5py") is None:
        raise UserError("Minari data sets need an extra: pip install 'polytask[export]'")


def to_minari(folder: str | Path, root: str | Path) -> list[str]:
    """Export the data set in `folder` to Minari data sets in the folder `root`, and return their names."""
    check_minari()
    dataset = load(folder, any_version=True)
    with datasets_in(Path(root).expanduser()):
        return [_export(dataset, task) for task in dataset.tasks]


def create_dataset(name: str, buffers: Iterable[Any], **about: Any) -> str:
    """Write episode buffers as one Minari data set, a block at a time, and return its name."""
    import minari

    episodes = iter(buffers)
    with warnings.catch_warnings(action="ignore"):  # Minari warns if there is no author and no link
        block = list(islice(episodes, _AT_ONCE))
        _check_space(block)
        dataset = minari.create_dataset_from_buffers(name, block, **about)
        while block := list(islice(episodes, _AT_ONCE)):
            _check_space(block)
            dataset.update_dataset_from_buffer(block)
    return name


def _export(dataset: EpisodeDataset, task: str) -> str:
    """Write the episodes of one task."""
    from gymnasium.spaces import Box
    from minari.data_collector import EpisodeBuffer

    index, config = dataset.index, dataset.index["config"]
    policy = f"{index['history']['algo']}-history" if "history" in index else config["policy"] or "checkpoint"
    name = f"polytask/{task}/{policy}-v{dataset.index['tasks'][task]['version']}"
    numbers = (dataset.task == dataset.tasks.index(task)).nonzero()[:, 0].tolist()
    buffers = (
        EpisodeBuffer(
            id=number,
            seed=episode.seed,
            observations=list(episode.obs.numpy()),
            actions=list(episode.action.numpy()),
            rewards=episode.reward.tolist(),
            terminations=episode.terminated.tolist(),
            truncations=episode.truncated.tolist(),
            # Minari expects one more info than steps. The first info belongs to the reset.
            infos={"success": np.concatenate([[False], episode.success.numpy()])},
        )
        for number, episode in enumerate(map(dataset.episode, numbers))
    )
    return create_dataset(
        name,
        buffers,
        env=_env_spec(task, {**config, "robot": index["robot"], "episode_length": index["episode_length"]}),
        observation_space=Box(-np.inf, np.inf, (dataset.index["obs_dim"],), np.float32),
        action_space=Box(-1.0, 1.0, (dataset.index["action_dim"],), np.float32),
        algorithm_name=str(policy),
        description=f"{len(numbers)} episodes of the polytask task {task}, robot {dataset.index['robot']}",
    )


def _env_spec(task: str, config: dict[str, Any]) -> Any:
    """Return Gymnasium's description of the worlds, from which Minari's `recover_environment` makes one."""
    from gymnasium.envs.registration import spec

    found = copy.deepcopy(spec(f"polytask/{task}-v0"))
    names = ("robot", "episode_length", "reward", "goals", "levels")
    found.kwargs |= {name: config[name] for name in names if config.get(name) is not None}
    return found


@contextmanager
def datasets_in(root: Path) -> Iterator[None]:
    """Make the folder `root`, and let Minari write to it inside this context."""
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = str(root.resolve())
    try:
        with export_folder(root), _hdf5_errors():
            yield
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before


@contextmanager
def _hdf5_errors() -> Iterator[None]:
    """Raise an OSError with its number where HDF5 cannot write. HDF5's errors have the number only in their text."""
    try:
        yield
    except (RuntimeError, OSError) as error:
        found = re.search(r"errno = (\d+)", str(error))
        if found is None:
            raise
        raise OSError(int(found[1]), os.strerror(int(found[1]))) from error


def _check_space(buffers: Sequence[Any]) -> None:
    """Check that the disk has room for episode buffers. HDF5 can crash the process on a full disk."""
    needed = sum(_BYTES_PER_EPISODE + sum(map(_bytes, vars(buffer).values())) for buffer in buffers)
    if shutil.disk_usage(os.environ[_VARIABLE]).free < needed:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _bytes(value: Any) -> int:
    """Return the size in memory of an array, or of the arrays in a table or a list."""
    return sum(map(_bytes, value.values())) if isinstance(value, dict) else np.asarray(value).nbytes
