"""A damaged data set is one line that names the file and the field."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polytask.cli.main import main
from polytask.datasets.read import load
from polytask.errors import UserError

SHARD = "shard-00000.npz"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "whole"
    words = ["tasks=[reach,push]", "policy=random", "episodes=1", "episode_length=5", "num_envs=2", "threads=1"]
    assert main(["collect", *words, f"output={folder}"]) == 0
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "data"))


def change_index(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    index = json.loads((folder / "index.json").read_text())
    change(index)
    (folder / "index.json").write_text(json.dumps(index))


def change_shard(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    arrays = dict(np.load(folder / SHARD))
    change(arrays)
    np.savez_compressed(folder / SHARD, **arrays)


def error(folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        load(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("value", [None, "text", [1], -1.5])
def test_every_field_of_the_index_is_checked(whole: Path, tmp_path: Path, value: object) -> None:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    good = (tmp_path / "index.json").read_text()
    for field in ("format", "obs_dim", "action_dim", "robot", "config", "tasks", "shards"):
        if (type(value), field) in ((str, "robot"), (list, "shards")):
            continue  # the right type
        change_index(tmp_path, lambda index, field=field: index.update({field: value}))
        assert f"index.json' is damaged: field '{field}'" in error(tmp_path)
        (tmp_path / "index.json").write_text(good)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda index: index["tasks"]["push"].pop("version"), "field 'tasks.push.version' is missing"),
        (lambda index: index["tasks"].update(push=5), "field 'tasks.push' must be a table"),
        (lambda index: index["shards"][0].pop("file"), "field 'shards[0].file' is missing"),
        (lambda index: index["shards"].append(None), "field 'shards[1]' must be a table"),
        (lambda index: index["shards"].clear(), "it names no shards"),
        (lambda index: index["tasks"].clear(), "it names no tasks"),
        (lambda index: index.update(format=2), "index.json' has format 2"),
        (lambda index: index["shards"][0].update(steps=9), f"{SHARD}' is damaged: 'obs' has shape (10, 39)"),
        (lambda index: index["shards"][0].update(file="gone.npz"), "gone.npz' is missing or damaged"),
    ],
)
def test_a_nested_field_of_the_index_is_named(folder: Path, change: Callable[[Any], object], line: str) -> None:
    change_index(folder, change)
    assert line in error(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda array: array[1:],
        lambda array: array[..., None],
        lambda array: array.astype(np.complex64),
        lambda array: array.astype(object),
    ],
)
def test_every_array_of_a_shard_is_checked(folder: Path, change: Callable[[Any], Any]) -> None:
    arrays = dict(np.load(folder / SHARD))
    for name, array in arrays.items():
        np.savez(folder / SHARD, **arrays | {name: change(array)})
        assert f"{SHARD}' is " in error(folder)
        assert f"'{name}'" in error(folder)
        np.savez(folder / SHARD, **{other: array for other, array in arrays.items() if other != name})
        assert f"{SHARD}' is missing or damaged: array '{name}'" in error(folder)


@pytest.mark.parametrize(
    ("name", "values"), [("task", [-1, 1]), ("task", [0, 2]), ("length", [5, 6]), ("length", [0, 10])]
)
def test_numbers_of_tasks_and_lengths_are_checked(folder: Path, name: str, values: list[int]) -> None:
    change_shard(folder, lambda arrays: arrays.update({name: np.array(values)}))
    assert f"{SHARD}' is damaged: " in error(folder)
    assert f"'{name}'" in error(folder)


def test_a_changed_byte_is_noticed_or_harmless(folder: Path) -> None:
    path, expected = folder / SHARD, load(folder)
    whole = path.read_bytes()
    noticed = 0
    for place in range(0, len(whole), 61):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        path.write_bytes(damaged)
        try:
            found = load(folder)
        except UserError as error:
            assert SHARD in str(error)
            noticed += 1
        else:  # a byte that the archive does not use, such as the time of a file
            assert all(np.array_equal(getattr(found, name), getattr(expected, name)) for name in ("obs", "length"))
    assert noticed > 10
