"""`polytask mtopt export`: data sets for other libraries from the episodes of a run."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from helpers.episodes import make
from helpers.tiny_run import tiny
from PIL import Image

from polytask.cli.main import main
from polytask.datasets.mtopt_lerobot import IMAGE, WHOLE, to_lerobot
from polytask.datasets.mtopt_minari import mtopt_to_minari
from polytask.errors import UserError
from polytask.mtopt.config.action import ActionConfig
from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.config.world import WorldConfig
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
    assert np.array_equal(dataset[1].infos["pose"], make(1, steps=3, size=40).pose)
    assert dataset[0].rewards.tolist() == [0.0, 1.0]
    assert dataset[1].rewards.tolist() == [0.0, 0.0, 0.0]


REAL, STEPS, ASSISTED = None, WorldConfig(), WorldConfig(assisted=True, reach=0.1)


@pytest.mark.parametrize(
    ("action", "is_closed", "world", "is_done"),
    [
        ({"terminate": 1.0}, 0, STEPS, True),
        ({"terminate": 0.4}, 0, STEPS, False),
        ({"terminate": 1.0}, 0, REAL, True),
        ({"close": 1.0}, 0, STEPS, False),
        ({"close": 1.0}, 0, ASSISTED, True),
        ({"close": 1.0}, 1, ASSISTED, False),
        ({"open": 1.0}, 1, ASSISTED, True),
        ({"open": 1.0}, 0, ASSISTED, False),
        ({"dz": -0.9}, 0, ASSISTED, True),
        ({"dz": -0.9}, 1, ASSISTED, False),
        ({"dz": -0.7}, 0, ASSISTED, False),
        ({"dz": -0.9}, 0, STEPS, False),
    ],
)
def test_a_limit_of_steps_is_no_termination(tmp_path, monkeypatch, action, is_closed, world, is_done):
    import minari

    episode = make(0, steps=2, size=40)
    actions = np.zeros_like(episode.actions)
    for name, value in action.items():
        actions[-1, ActionConfig().names.index(name)] = value
    closed, height = np.full(3, is_closed, np.float32), np.full(3, 0.15, np.float32)
    store = EpisodeStore(tmp_path / "log", StoreConfig(fsync=False))
    with store.writer("a") as writer:
        writer.append(replace(episode, actions=actions, closed=closed, height=height))
    names = mtopt_to_minari(store, tmp_path / "m", [Shared(1, "lift-any", True)], world)
    store.close()
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "m"))
    found = minari.load_dataset(names[0])[0]
    assert (found.terminations.tolist(), found.truncations.tolist()) == ([False, is_done], [False, not is_done])


def test_the_lerobot_layout_holds_one_row_per_frame(store, tmp_path):
    import pyarrow.parquet as pq

    root, second = tmp_path / "lerobot", make(1, steps=3, size=40)
    shared = [*SHARED, Shared(3, "lift-any", True)]
    assert to_lerobot(store, root, shared, {"lift-any": "Lift something."}) == 10
    data = pq.read_table(root / "data" / "chunk-000" / "file-000.parquet").to_pydict()
    assert data["episode_index"] == [0] * 3 + [1] * 4 + [2] * 3
    assert data["frame_index"] == [0, 1, 2, 0, 1, 2, 3, 0, 1, 2]
    assert data["index"] == list(range(10))
    assert data["task_index"] == [0] * 7 + [1] * 3
    assert data["next.reward"] == [0.0, 1.0] + [0.0] * 8
    assert data["next.done"] == [False, True, True, False, False, True, True, False, True, True]
    assert data["is_last"] == [False, False, True, False, False, False, True, False, False, True]
    assert np.allclose(data["timestamp"][3:7], [0.0, 0.2, 0.4, 0.6])
    assert np.array_equal(np.float32(data["action"][3:7]), np.concatenate([second.actions, np.zeros((1, 8))]))
    state = np.concatenate([second.closed[:, None], second.height[:, None], second.pose], 1)
    assert np.array_equal(np.float32(data["observation.state"][3:7]), state)
    frame = np.asarray(Image.open(io.BytesIO(data[IMAGE][6]["bytes"])))
    assert np.array_equal(frame, second.images[3]), "the last frame is there"
    info = json.loads((root / "meta" / "info.json").read_text())
    assert (info["codebase_version"], info["total_episodes"], info["total_frames"]) == ("v3.0", 3, 10)
    assert set(info["features"]) == set(data)
    assert info["features"]["observation.state"]["names"] == ["closed", "height", "x", "y", "yaw"]
    episodes = pq.read_table(root / "meta" / "episodes" / "chunk-000" / "file-000.parquet").to_pydict()
    assert episodes["tasks"] == [["Lift something."], ["Lift something."], ["lift-can"]]
    assert (episodes["dataset_from_index"], episodes["dataset_to_index"]) == ([0, 3, 7], [3, 7, 10])
    whole = pq.read_table(root / WHOLE).to_pydict()
    assert (whole["episode"], whole["seed"]) == ([1, 2, 1], [0, 1, 0])
    view = np.asarray(Image.open(io.BytesIO(whole["outcome"][1][1])))
    assert np.array_equal(view, second.outcome[1]), "so are the views of the end"
    with pytest.raises(UserError, match="exists already"):
        to_lerobot(store, root, shared, {})


def test_lerobot_statistics_are_exact(store, tmp_path):
    root = tmp_path / "lerobot"
    to_lerobot(store, root, SHARED, {})
    stats = json.loads((root / "meta" / "stats.json").read_text())
    episodes = [make(seed, steps=steps, size=40) for seed, steps in ((0, 2), (1, 3), (0, 2))]
    height = np.concatenate([one.height for one in episodes]).astype(float)
    assert stats["observation.state"]["mean"][1] == pytest.approx(height.mean())
    assert stats["observation.state"]["std"][1] == pytest.approx(height.std())
    assert stats["observation.state"]["q90"][1] == pytest.approx(np.quantile(height, 0.9))
    assert stats["observation.state"]["count"] == [10]
    red = np.concatenate([one.images[..., 0].reshape(-1) for one in episodes]) / 255.0
    found = {name: np.array(value).reshape(-1)[0] for name, value in stats[IMAGE].items()}
    assert np.shape(stats[IMAGE]["max"]) == (3, 1, 1)
    assert (found["min"], found["max"], found["count"]) == (red.min(), red.max(), 10)
    assert (found["mean"], found["std"]) == (pytest.approx(red.mean()), pytest.approx(red.std()))
    assert found["q10"] == pytest.approx(np.quantile(red, 0.1), abs=1 / 255)


def test_episodes_with_and_without_pose_do_not_mix(tmp_path):
    store = EpisodeStore(tmp_path / "log", StoreConfig(fsync=False))
    with store.writer("a") as writer:
        writer.append_many([make(0), make(1, has_pose=False)])
    with pytest.raises(UserError, match=r"episode 1 has float32 \(2,\) for observation.state, earlier ones have .*5"):
        to_lerobot(store, tmp_path / "x", [Shared(1, "lift-any", True), Shared(2, "lift-any", True)], {})
    store.close()
    assert not (tmp_path / "x").exists()


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
