"""`polytask mtopt import`: episodes of other robots, from LeRobot data sets and folders of pictures."""

import json
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from helpers import lerobot_loader
from helpers.episodes import make, same
from PIL import Image

from polytask.cli.main import main
from polytask.datasets.incoming import commanded
from polytask.datasets.mtopt_lerobot import WHOLE, to_lerobot
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


def export(root, written):
    """Write a LeRobot data set in which the first episode is a success of one task and a failure of another."""
    shared = [Shared(1, "lift-any", True), Shared(2, "lift-can", False), Shared(3, "lift-any", False)]
    with closing(EpisodeStore(root.parent / "before", StoreConfig(fsync=False))) as store:
        with store.writer("a") as writer:
            writer.append_many(written)
        to_lerobot(store, root, [*shared, Shared(1, "lift-can", False)], SENTENCES)
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


@pytest.mark.parametrize("has_pose", [True, False])
def test_an_export_comes_back_equal(tmp_path, has_pose):
    written = episodes(has_pose=has_pose)
    root = export(tmp_path / "lerobot", written)
    assert call(tmp_path, "from=lerobot", f"data={root}", "labels=true", "format=json") == 0
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
        ({}, ("data=nowhere",), "there is no folder 'nowhere'"),
        ({}, ("from=csv",), "source=csv is not valid"),
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
