"""`polytask mtopt import`: episodes of other robots, from LeRobot and Minari data sets and folders of pictures."""

import json
import re
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from helpers import lerobot_loader
from helpers.episodes import make, same
from PIL import Image

from polytask.cli.main import main
from polytask.datasets.incoming import commanded
from polytask.datasets.minari import create_dataset, datasets_in
from polytask.datasets.mtopt_lerobot import WHOLE, to_lerobot
from polytask.datasets.mtopt_minari import mtopt_to_minari
from polytask.mtopt.config import LabelConfig
from polytask.mtopt.config.action import ActionConfig
from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.learning.sharing import Shared
from polytask.mtopt.runtime.folder import RunFolder, label_settings
from polytask.mtopt.store import EpisodeStore
from polytask.mtopt.tasks import TASKS

SENTENCES = {name: task.sentence for name, task in TASKS.items()}


def episodes(**options):
    """Make three episodes with the sizes that a small network accepts."""
    tasks = ("lift-any", "lift-can", "lift-any")
    found = [make(seed, steps=seed + 1, size=40, task=task, **options) for seed, task in enumerate(tasks)]
    return [replace(one, outcome=one.outcome[:, :40, :40]) for one in found]


def export(root, written, to="lerobot"):
    """Write a data set in which the first episode is a success of one task and a failure of another."""
    shared = [Shared(1, "lift-any", True), Shared(2, "lift-can", False), Shared(3, "lift-any", False)]
    shared = [*shared, Shared(1, "lift-can", False)]
    with closing(EpisodeStore(root.parent / "before", StoreConfig(fsync=False))) as store:
        with store.writer("a") as writer:
            writer.append_many(written)
        if to == "lerobot":
            to_lerobot(store, root, shared, SENTENCES)
        else:
            mtopt_to_minari(store, root, shared)
    return root


def write_minari(root, written, name="robot/lift/log-v0", infos=None, **changes):
    """Write a Minari data set as another program might; `changes` are entries of its observation, None to have none."""
    from gymnasium.spaces import Box, Dict
    from minari.data_collector import EpisodeBuffer

    def box(entry):
        return Box(0, 255, entry.shape[1:], np.uint8) if entry.dtype == np.uint8 else Box(-9, 9, entry.shape[1:])

    buffers = []
    for number, one in enumerate(written):
        seen = {"image": one.images, "closed": one.closed, **changes}
        seen = {key: entry for key, entry in seen.items() if entry is not None}
        steps = len(one.actions)
        end = np.arange(steps) == steps - 1
        buffers.append(EpisodeBuffer(number, None, None, seen, one.actions, end * 1.0, end, end & False, infos))
    with datasets_in(root):
        create_dataset(
            name,
            buffers,
            observation_space=Dict({key: box(entry) for key, entry in seen.items()}),
            action_space=Box(-1.0, 1.0, (written[0].actions.shape[1],)),
            jpeg_encoding=False,
        )
    return root


def write_folder(root, written, success=None, **changes):
    """Write episodes as a robot might: pictures and a JSON file each."""
    for number, one in enumerate(written):
        folder = root / f"{number:03d}"
        for name, pictures in (("frames", one.images), ("outcome", one.outcome)):
            (folder / name).mkdir(parents=True)
            for index, picture in enumerate(pictures):
                Image.fromarray(picture).save(folder / name / f"{index:03d}.png")
        about = {"task": one.task, "actions": one.actions.tolist(), "seed": one.seed}
        about |= {"closed": one.closed.tolist(), "height": one.height.tolist()}
        about |= {} if one.pose is None else {"pose": one.pose.tolist()}
        about |= {} if success is None else {"success": success[number]}
        (folder / "episode.json").write_text(json.dumps({**about, **changes}))
    return root


def call(tmp_path, *words):
    return main(["mtopt", "import", f"run_dir={tmp_path / 'run'}", *map(str, words)])


def stored(tmp_path):
    with closing(EpisodeStore(tmp_path / "run")) as store:
        labels = {(one.episode, one.task): one.value for one in store.labels(source="person")}
        return [store.read(row.id) for row in store.rows()], labels


@pytest.mark.parametrize("to", ["lerobot", "minari"])
@pytest.mark.parametrize("has_pose", [True, False])
def test_an_export_comes_back_equal(tmp_path, has_pose, to):
    written = episodes(has_pose=has_pose)
    root = export(tmp_path / "data", written, to)
    assert call(tmp_path, f"from={to}", f"data={root}", "labels=true", "format=json") == 0
    found, labels = stored(tmp_path)
    assert len(found) == 3, "an episode that two tasks learn from comes back once"
    assert all(same(one, other) for one, other in zip(found, written, strict=True))
    assert labels == {(1, "lift-any"): 1.0, (1, "lift-can"): 0.0, (2, "lift-can"): 0.0, (3, "lift-any"): 0.0}
    run = RunFolder(tmp_path / "run").config()
    assert (run.tasks, run.world.image_size, run.world.outcome_size) == (["lift-any", "lift-can"], 40, 40)
    assert run.learner.network.merge == "added"


def test_lerobot_reads_our_export(tmp_path):
    found = lerobot_loader.read(export(tmp_path / "lerobot", episodes()))
    assert (found["episodes"], found["cameras"]) == (4, ["observation.images.shoulder"])
    assert found["tasks"][0] == SENTENCES["lift-any"]
    assert found["shapes"]["observation.state"] == [5]


def test_the_data_set_of_another_program_needs_only_pictures_and_actions(tmp_path):
    root = export(tmp_path / "lerobot", episodes(has_pose=False))
    (root / WHOLE).unlink()
    info = json.loads((root / "meta" / "info.json").read_text())
    info["features"]["observation.state"]["names"] = None
    (root / "meta" / "info.json").write_text(json.dumps(info))
    assert call(tmp_path, "from=lerobot", f"data={root}", "format=json") == 0
    found, labels = stored(tmp_path)
    written = episodes()
    assert (len(found), labels) == (4, {})
    assert np.array_equal(found[1].images, written[1].images)
    assert np.array_equal(found[1].actions, written[1].actions)
    assert np.array_equal(found[1].outcome, written[1].images[-1:]), "the last frame is the only view"
    assert np.array_equal(found[1].closed, commanded(written[1].actions, ActionConfig()))
    assert found[1].pose is None


def test_minari_keeps_episodes_with_and_without_pose_apart(tmp_path):
    written = [episodes()[0], *episodes(has_pose=False)[1:]]
    root = export(tmp_path / "data", written, "minari")
    assert call(tmp_path, "from=minari", f"data={root / 'polytask' / 'mtopt-lift-any' / 'log-v0'}") == 0
    found, labels = stored(tmp_path)
    assert [same(one, other) for one, other in zip(found, written[::2], strict=True)] == [True, True]
    assert labels == {}, "verdicts are no labels of people unless the user says so"


def test_the_minari_data_set_of_another_program_needs_only_pictures_and_actions(tmp_path):
    written = episodes()
    root = write_minari(tmp_path / "data", written, closed=None)
    assert call(tmp_path, "from=minari", f"data={root}", "task=lift-can", "labels=true") == 0
    found, labels = stored(tmp_path)
    assert ([one.task for one in found], labels) == (["lift-can"] * 3, {})
    assert [(one.policy, one.seed) for one in found] == [("import", 0), ("import", 1), ("import", 2)]
    for one, given in zip(found, written, strict=True):
        assert np.array_equal(one.images, given.images)
        assert np.array_equal(one.actions, given.actions)
        assert np.array_equal(one.outcome, given.images[-1:]), "the last frame is the only view"
        assert np.array_equal(one.closed, commanded(given.actions, ActionConfig()))
        assert not one.height.any()
        assert one.pose is None


def test_minari_cameras_are_chosen_and_infos_read(capsys, tmp_path):
    (one,) = episodes()[:1]
    front, pose = one.images[::-1].copy(), np.float32([[0, 1, 2], [3, 4, 5]])
    infos = {"success": np.array([False, True]), "pose": pose}
    root = write_minari(tmp_path / "data", [one], infos=infos, front=front, height=one.height[:, None])
    words = ("from=minari", f"data={root}", "task=lift-any", "labels=true")
    assert call(tmp_path, *words) == 2
    assert "has 2 cameras; name one: camera=..., of front, image" in capsys.readouterr().err
    assert call(tmp_path, *words, "camera=side") == 2
    assert "unknown camera 'side'; known: front, image" in capsys.readouterr().err
    assert call(tmp_path, *words, "camera=image", "outcome_cameras=[front,image]") == 0
    (found,), labels = stored(tmp_path)
    assert labels == {(1, "lift-any"): 1.0}
    assert np.array_equal(found.images, one.images)
    assert np.array_equal(found.outcome, [front[-1], one.images[-1]])
    assert np.array_equal(found.closed, one.closed)
    assert np.array_equal(found.height, one.height)
    assert np.array_equal(found.pose, pose)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "has the unknown task 'robot/lift/log-v0'; set task=NAME for all episodes"),
        ({"name": "polytask/mtopt-wave/log-v0"}, "has the unknown task 'wave'"),
        ({"image": np.zeros((2, 40, 40, 4), np.uint8)}, "episode 0 of '{root}' has no pictures"),
        ({"image": np.zeros((3, 40, 40, 3), np.uint8)}, "has 3 frames and 1 actions; there must be one frame more"),
        ({"closed": np.zeros((2, 4), np.float32)}, "'{root}': closed has the shape (2, 4), not 2"),
        ({"infos": {"pose": np.zeros((2, 7))}}, "'{root}': pose has the shape (2, 7), not 2 x 3"),
        ({"steps": [[0.0] * 7]}, "actions has the shape (1, 7), not any x 8; an action of this run has 8"),
    ],
)
def test_a_mistake_in_a_minari_data_set_is_one_line_and_nothing_is_written(capsys, tmp_path, changes, line):
    (one,) = episodes()[:1]
    steps = changes.pop("steps", one.actions)
    root = write_minari(tmp_path / "data", [replace(one, actions=np.float32(steps))], **changes)
    assert call(tmp_path, "from=minari", f"data={root}") == 2
    error = capsys.readouterr().err
    assert line.format(root=root / changes.get("name", "robot/lift/log-v0")) in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_damaged_minari_data_set_is_one_line(capsys, tmp_path, monkeypatch):
    root = export(tmp_path / "data", episodes(), "minari")
    last = root / "polytask" / "mtopt-lift-can" / "log-v0"
    about = json.loads((last / "data" / "metadata.json").read_text())
    whole, data = (last / "polytask.parquet").read_bytes(), (last / "data" / "main_data.hdf5").read_bytes()
    cases = {
        "data/metadata.json": [
            (json.dumps({**about, "total_episodes": 3}).encode(), "Minari: .*'episode_2' doesn't exist"),
            (json.dumps({**about, "data_format": "tape"}).encode(), "is damaged or no data set of this version"),
            (json.dumps({**about, "observation_space": "{}"}).encode(), "is damaged or no data set of this version"),
            (json.dumps({**about, "observation_space": None}).encode(), "field 'observation_space' must be text"),
            (b"{", "it is not a description of a Minari data set in JSON"),
        ],
        "data/main_data.hdf5": [(data[: len(data) // 2], "is damaged or no data set of this version of Minari: ")],
        "polytask.parquet": [(whole[:-9], "polytask.parquet' is missing or damaged")],
    }
    for name, damages in cases.items():
        before = (last / name).read_bytes()
        for damaged, line in damages:
            (last / name).write_bytes(damaged)
            assert call(tmp_path, "from=minari", f"data={root}") == 2
            error = capsys.readouterr().err
            assert re.search(line, error), error
            assert error.count("\n") == 1
            assert not (tmp_path / "run").exists()
        (last / name).write_bytes(before)
    assert call(tmp_path, "from=minari", f"data={root}") == 0
    capsys.readouterr()
    monkeypatch.setattr("polytask.datasets.minari.find_spec", lambda name: None)
    assert call(tmp_path / "other", "from=minari", f"data={root}") == 2
    assert "pip install 'polytask[export]'" in capsys.readouterr().err


def test_the_gripper_follows_the_commands():
    actions = np.zeros((4, 8), np.float32)
    actions[1, 5] = actions[3, 6] = 0.9
    assert commanded(actions, ActionConfig()).tolist() == [0.0, 0.0, 1.0, 1.0, 0.0]


@pytest.mark.parametrize("has_pose", [True, False])
def test_a_folder_of_pictures_comes_in(tmp_path, has_pose):
    written = [replace(one, policy="import") for one in episodes(has_pose=has_pose)]
    root = write_folder(tmp_path / "data", written, success=[True, False, False])
    assert call(tmp_path, "from=folder", f"data={root}", "labels=true") == 0
    found, labels = stored(tmp_path)
    assert all(same(one, other) for one, other in zip(found, written, strict=True))
    assert labels == {(1, "lift-any"): 1.0, (2, "lift-can"): 0.0, (3, "lift-any"): 0.0}
    assert call(tmp_path, f"data={root}") == 0, "a second data set is added to the run"
    assert len(stored(tmp_path)[0]) == 6


def test_rectangular_pictures_stay_as_they_are_or_are_fitted(capsys, tmp_path):
    wide = [replace(one, images=one.images[:, 8:32], outcome=one.outcome[:, :, 8:32]) for one in episodes()]
    root = write_folder(tmp_path / "data", wide)
    assert call(tmp_path, f"data={root}", "image_size=24") == 2
    line = "episode '000': the picture has 40 x 24 pixels, the run needs 24 x 24; set fit=crop or fit=stretch"
    assert line in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    assert call(tmp_path / "whole", f"data={root}") == 0
    run, found = RunFolder(tmp_path / "whole" / "run").config(), stored(tmp_path / "whole")[0]
    assert (run.world.image_shape, run.learner.network.image_width) == ((24, 40), 40)
    assert np.array_equal(found[0].images, wide[0].images)
    assert call(tmp_path, f"data={root}", "fit=crop", "image_size=24", "outcome_size=32") == 0
    found, _ = stored(tmp_path)
    assert np.array_equal(found[0].images, wide[0].images[:, :, 8:32]), "its central square"
    assert found[0].outcome.shape == (2, 32, 32, 3)


@pytest.mark.parametrize(
    ("changes", "words", "line"),
    [
        ({"task": "wave"}, (), "episode '000' has the unknown task 'wave'; set task=NAME for all episodes"),
        (
            {"actions": [[0.0] * 7]},
            (),
            "episode '000': actions has the shape (1, 7), not any x 8; an action of this run has 8",
        ),
        ({"actions": [["x"] * 8]}, (), "episode '000': actions must be rows of numbers"),
        ({"actions": [[0.0] * 8] * 2}, (), "episode '000' has 2 frames and 2 actions; there must be one frame more"),
        ({"pose": [[0.0] * 3]}, (), "episode '000': pose has the shape (1, 3), not 2 x 3"),
        ({"height": [0.0, float("nan")]}, (), "episode '000': height has values that are not finite"),
        ({"pose": None}, ("network.merge=located",), "episode '000' has no pose of the hand, which the run's network"),
        ({}, ("task=wave",), "unknown task 'wave'"),
        ({}, ("from=lerobot",), "no description of a LeRobot data set at"),
        ({}, ("from=minari",), "has no Minari data set: there is no"),
        ({}, ("data=nowhere",), "there is no folder 'nowhere'"),
        ({}, ("from=csv",), "from=csv is not valid"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(capsys, tmp_path, changes, words, line):
    root = write_folder(tmp_path / "data", episodes()[:1], **changes)
    capsys.readouterr()
    assert call(tmp_path, f"data={root}", *words) == 2
    error = capsys.readouterr().err
    assert line in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_other_actions_versions_and_videos_are_refused(capsys, tmp_path):
    root = export(tmp_path / "lerobot", episodes())
    info = json.loads((root / "meta" / "info.json").read_text())
    camera = "observation.images.shoulder"
    cases = [
        ({"codebase_version": "v2.1"}, {}, "has LeRobot's version v2.1, not v3.0"),
        ({}, {"action": {"dtype": "float32", "shape": [7], "names": None}}, "has actions of the shape [7]"),
        ({}, {camera: {**info["features"][camera], "dtype": "video"}}, "is stored as video, which is not read"),
        ({}, {"second": info["features"][camera]}, "has 2 cameras; name one: camera=..."),
    ]
    for changes, features, line in cases:
        new = {**info, **changes, "features": {**info["features"], **features}}
        (root / "meta" / "info.json").write_text(json.dumps(new))
        assert call(tmp_path, "from=lerobot", f"data={root}") == 2
        assert line in capsys.readouterr().err


def test_views_must_be_those_of_the_run(capsys, tmp_path):
    assert call(tmp_path, f"data={write_folder(tmp_path / 'two', episodes())}") == 0
    one = [replace(each, outcome=each.outcome[:1]) for each in episodes()]
    assert call(tmp_path, f"data={write_folder(tmp_path / 'one', one)}") == 2
    assert "the episodes have outcomes (1, 40, 40, 3), those of the run (2, 40, 40, 3)" in capsys.readouterr().err


def test_a_robot_of_its_own_brings_its_tasks_and_actions(capsys, tmp_path):
    """The task is added first; the action has two motions and one command, and no gripper."""
    add = ("mtopt", "task", "add", f"run_dir={tmp_path / 'run'}", "name=wipe-table", "skill=wipe", "world=robot")
    assert main([*add, "sentence=The table is clean."]) == 0
    slim = [replace(one, task="wipe-table", actions=one.actions[:, :3].copy(), pose=None) for one in episodes()]
    root = write_folder(tmp_path / "data", slim)
    assert call(tmp_path, f"data={root}") == 2
    assert "an action of this run has 8: dx, dy, dz" in capsys.readouterr().err
    layout = ("network.action.axes=[x,y]", "network.action.turns=[]", "network.action.commands=[terminate]")
    assert call(tmp_path, f"data={root}", *layout, "network.action.shares=[0.8,0.2]") == 0
    run, (found, _) = RunFolder(tmp_path / "run").config(), stored(tmp_path)
    assert (run.learned, run.learner.network.action.size) == (("wipe-table",), 3)
    assert [np.array_equal(one.actions, given.actions) for one, given in zip(found, slim, strict=True)] == [True] * 3
    capsys.readouterr()
    assert main(["mtopt", "status", f"run_dir={tmp_path / 'run'}"]) == 0
    assert "wipe-table" in capsys.readouterr().out
    page = label_settings(LabelConfig(run_dir=str(tmp_path / "run")))
    assert page.keys() == {"detector", "outcome_size"}, "imported outcomes have any number of views"
    assert main(["mtopt", "collect", f"run_dir={tmp_path / 'run'}"]) == 2
    assert "the world 'robot' cannot start task 'wipe-table'" in capsys.readouterr().err
