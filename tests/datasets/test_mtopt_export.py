"""`polytask mtopt export`: data sets for other libraries from the episodes of a run."""

import io
import json

import numpy as np
import pytest
from helpers.episodes import make
from helpers.tiny_run import tiny
from PIL import Image

from polytask.cli.main import main
from polytask.datasets.lerobot import IMAGE, to_lerobot
from polytask.datasets.mtopt_minari import mtopt_to_minari
from polytask.errors import UserError
from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.learning.sharing import Shared
from polytask.mtopt.records import Label
from polytask.mtopt.runtime.folder import RunFolder
from polytask.mtopt.store import EpisodeStore, episode_of_pictures

SHARED = [Shared(1, "lift-any", True), Shared(2, "lift-any", False), Shared(1, "lift-can", False)]


@pytest.fixture
def store(tmp_path):
    with_store = EpisodeStore(tmp_path / "log", StoreConfig(fsync=False))
    with with_store.writer("a") as writer:
        writer.append_many(
            [make(0, steps=2, size=40), make(1, steps=3, size=40), episode_of_pictures(make(2).outcome, "lift-any")]
        )
    yield with_store
    with_store.close()


def test_a_missing_extra_is_named(store, tmp_path, monkeypatch):
    monkeypatch.setattr("polytask.datasets.minari.find_spec", lambda name: None)
    monkeypatch.setattr("polytask.datasets.lerobot.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'polytask\[export\]'"):
        mtopt_to_minari(store, tmp_path / "minari", SHARED)
    with pytest.raises(UserError, match=r"pip install 'polytask\[export\]'"):
        to_lerobot(store, tmp_path / "lerobot", SHARED, {})
    assert {path.name for path in tmp_path.iterdir()} == {"log"}


def test_minari_reads_the_export_unchanged(store, tmp_path, monkeypatch):
    names = mtopt_to_minari(store, tmp_path / "minari", [*SHARED, Shared(3, "lift-any", True)])
    assert names == ["polytask/mtopt-lift-any/log-v0", "polytask/mtopt-lift-can/log-v0"]
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    import minari

    dataset = minari.load_dataset(names[0])
    assert (dataset.total_episodes, dataset.total_steps) == (2, 5)  # the uploaded picture has no action
    assert np.array_equal(dataset[1].observations["image"], make(1, steps=3, size=40).images)
    assert np.array_equal(dataset[1].actions, make(1, steps=3, size=40).actions)
    assert dataset[0].rewards.tolist() == [0.0, 1.0]
    assert dataset[1].rewards.tolist() == [0.0, 0.0, 0.0]
    assert dataset[0].terminations.tolist() == [False, True]


def test_the_lerobot_layout_holds_one_row_per_action(store, tmp_path):
    import pyarrow.parquet as pq

    root = tmp_path / "lerobot"
    shared = [*SHARED, Shared(3, "lift-any", True)]
    assert to_lerobot(store, root, shared, {"lift-any": "Lift something."}) == 7
    data = pq.read_table(root / "data" / "chunk-000" / "file-000.parquet").to_pydict()
    assert data["episode_index"] == [0, 0, 1, 1, 1, 2, 2]
    assert data["frame_index"] == [0, 1, 0, 1, 2, 0, 1]
    assert data["index"] == list(range(7))
    assert data["task_index"] == [0] * 5 + [1] * 2
    assert data["next.reward"] == [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert data["next.done"] == [False, True, False, False, True, False, True]
    assert np.allclose(data["timestamp"][2:5], [0.0, 0.2, 0.4])
    assert np.array_equal(np.float32(data["action"][2:5]), make(1, steps=3, size=40).actions)
    frame = np.asarray(Image.open(io.BytesIO(data[IMAGE][3]["bytes"])))
    assert np.array_equal(frame, make(1, steps=3, size=40).images[1])
    info = json.loads((root / "meta" / "info.json").read_text())
    assert (info["codebase_version"], info["total_episodes"], info["total_frames"]) == ("v3.0", 3, 7)
    assert set(info["features"]) == set(data)
    episodes = pq.read_table(root / "meta" / "episodes" / "chunk-000" / "file-000.parquet").to_pydict()
    assert episodes["tasks"] == [["Lift something."], ["Lift something."], ["lift-can"]]
    assert (episodes["dataset_from_index"], episodes["dataset_to_index"]) == ([0, 2, 5], [2, 5, 7])
    stats = json.loads((root / "meta" / "stats.json").read_text())
    height = np.concatenate([make(seed, steps=steps, size=40).height[:-1] for seed, steps in ((0, 2), (1, 3), (0, 2))])
    assert stats["observation.state"]["mean"][1] == pytest.approx(height.mean())
    assert stats["observation.state"]["std"][1] == pytest.approx(height.std())
    assert np.shape(stats[IMAGE]["max"]) == (3, 1, 1)
    with pytest.raises(UserError, match="exists already"):
        to_lerobot(store, root, shared, {})


def test_pictures_alone_are_nothing_to_export(store, tmp_path):
    with pytest.raises(UserError, match="no episode with actions"):
        to_lerobot(store, tmp_path / "x", [Shared(3, "lift-any", True)], {})


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def run_dir(tmp_path):
    """Make the folder of a run with two lifts and a place, without any verdict."""
    root = tmp_path / "run"
    folder = RunFolder(root)
    folder.begin(tiny(root))
    folder.close()
    store = EpisodeStore(root, StoreConfig(fsync=False))
    with store.writer("a") as writer:
        writer.append_many([make(seed, task=task) for seed, task in enumerate(("lift-any", "lift-can", "place-any"))])
    store.close()
    return root


def add_verdicts(root):
    """Label the lifts for lift-any, and the first one for lift-can; the place has no label."""
    store = EpisodeStore(root)
    store.add_labels([Label(1, "lift-any", 1.0, "person"), Label(2, "lift-any", 0.0, "person")])
    store.add_labels([Label(1, "lift-can", 1.0, "person"), Label(3, "lift-any", 1.0, "oracle")])
    store.close()


@pytest.fixture
def export(capsys, run_dir):
    """Call the command and return its exit code, its output and its error line."""

    def call(*words):
        capsys.readouterr()
        code = main(["mtopt", "export", f"run_dir={run_dir}", *words])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def refused(export, line, *words):
    code, out, err = export(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert line in err


def test_there_must_be_a_run_with_verdicts(export, run_dir, tmp_path):
    refused(export, "there is no run in", f"run_dir={tmp_path / 'nothing'}")
    refused(export, f"no episode in '{run_dir}' has a verdict on lift-any, lift-can, place-any")
    add_verdicts(run_dir)
    refused(export, "has a verdict on place-any", "tasks=[place-any]")
    assert not (run_dir / "lerobot").exists()


def test_wrong_words_are_refused(export, run_dir, tmp_path):
    add_verdicts(run_dir)
    refused(export, "unknown task 'lift-moon'; did you mean", "tasks=[lift-moon]")
    refused(export, "to=csv is not valid; known: lerobot, minari", "to=csv")
    (tmp_path / "there").mkdir()
    refused(export, "exists already; name another folder with output=DIR", f"output={tmp_path / 'there'}")


@pytest.mark.parametrize("to", ["lerobot", "minari"])
def test_the_command_names_a_missing_extra_and_writes_nothing(export, run_dir, tmp_path, monkeypatch, to):
    add_verdicts(run_dir)
    monkeypatch.setattr(f"polytask.datasets.{to}.find_spec", lambda name: None)
    refused(export, "pip install 'polytask[export]'", f"to={to}", f"output={tmp_path / 'data'}")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("to", ["lerobot", "minari"])
def test_the_command_exports_the_episodes_that_have_verdicts(export, run_dir, tmp_path, to):
    add_verdicts(run_dir)
    code, out, _ = export(f"to={to}", "tasks=[lift-any,lift-can]", f"output={tmp_path / 'data'}", "format=json")
    assert code == 0
    found = json.loads(out)
    assert found["output"] == str(tmp_path / "data")
    assert found["tasks"] == {"lift-any": {"success": 1, "failure": 1}, "lift-can": {"success": 1, "failure": 0}}
    named = {
        "lerobot": [str(tmp_path / "data")],
        "minari": ["polytask/mtopt-lift-any/log-v0", "polytask/mtopt-lift-can/log-v0"],
    }
    assert found["datasets"] == named[to]
    assert (tmp_path / "data").is_dir()
