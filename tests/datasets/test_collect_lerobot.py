"""`polytask collect export=lerobot`: pictures, states, actions and sentences that LeRobot reads."""

import io
import json
from contextlib import closing
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from helpers import lerobot_loader
from PIL import Image

import polytask
from polytask.cli.main import main
from polytask.datasets.read import load
from polytask.envs.render import Renderer, pose_of

WORDS = ["tasks=[reach,drawer-close]", "policy=scripted", "episode_length=3", "threads=1", "export=lerobot"]
CAMERAS = ("scene", "hand")


def run(*words):
    return main(["collect", *WORDS, *(str(word) for word in words)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Collect three episodes of each of two tasks, in shards of two episodes per task."""
    path = tmp_path_factory.mktemp("data_sets") / "one"
    words = ["episodes=3", "num_envs=4", "cameras=[scene,hand]", "width=48", "height=32"]
    assert run(*words, f"output={path}", "format=json") == 0
    return path


def table(folder):
    return pq.read_table(folder / "lerobot" / "data" / "chunk-000" / "file-000.parquet").to_pydict()


def pictures(data, camera):
    cells = data[f"observation.images.{camera}"]
    return np.stack([np.asarray(Image.open(io.BytesIO(cell["bytes"]))) for cell in cells])


def test_the_rows_are_those_of_the_data_set(folder):
    data, own = table(folder), load(folder)
    assert data["episode_index"] == [number for number in range(6) for _ in range(3)]
    assert own.task.tolist() == [0, 0, 1, 1, 0, 1]
    sentences = pq.read_table(folder / "lerobot" / "meta" / "tasks.parquet").to_pydict()["__index_level_0__"]
    assert sentences == ["Reach a goal position in space.", "Push the open drawer shut."]
    assert data["task_index"] == own.step_task.tolist()
    obs = np.concatenate([data["observation.state"], data["observation.environment_state"]], 1)
    assert np.array_equal(np.float32(obs), own.obs.numpy())
    assert np.array_equal(np.float32(data["action"]), own.action.numpy())
    assert data["next.reward"] == own.reward.tolist()
    assert data["next.success"] == own.success.tolist()
    assert data["next.truncated"] == own.truncated.tolist()
    assert data["next.done"] == [False, False, True] * 6
    assert not any(data["next.terminated"])


def test_the_pictures_show_the_worlds_before_each_action(folder):
    data, own = table(folder), load(folder)
    env = polytask.make(tasks=own.tasks, num_envs=4, episode_length=3, stagger=False, threads=1)
    env.seed(int(own.seed[0]))
    env.reset()
    shown = {camera: pictures(data, camera) for camera in CAMERAS}
    assert shown["scene"].shape == (18, 32, 48, 3)
    assert not np.array_equal(shown["scene"], shown["hand"])
    episodes = [own.episode(number) for number in range(4)]
    for step in range(3):
        for number, (task, world) in enumerate((("reach", 0), ("reach", 1), ("drawer-close", 0), ("drawer-close", 1))):
            with closing(Renderer(env, task, 48, 32)) as renderer:
                assert np.array_equal(shown["scene"][3 * number + step], renderer.frame(world)), (task, world, step)
        env.step(torch.stack([episode.action[step] for episode in episodes]))


def test_the_files_follow_the_schema(folder):
    root = folder / "lerobot"
    info = json.loads((root / "meta" / "info.json").read_text())
    sizes = ("total_episodes", "total_frames", "total_tasks", "fps")
    assert (info["codebase_version"], info["robot_type"]) == ("v3.0", "sawyer")
    assert tuple(info[name] for name in sizes) == (6, 18, 2, 80)
    assert info["splits"] == {"train": "0:6"}
    image = info["features"]["observation.images.hand"]
    assert image == {"dtype": "image", "shape": [32, 48, 3], "names": ["height", "width", "channels"]}
    assert info["features"]["observation.state"]["names"][3] == "gripper openness"
    assert info["features"]["action"]["shape"] == [4]
    columns = set(table(folder))
    assert set(info["features"]) == columns == set(json.loads((root / "meta" / "stats.json").read_text()))
    episodes = pq.read_table(root / "meta" / "episodes" / "chunk-000" / "file-000.parquet").to_pydict()
    assert episodes["length"] == [3] * 6
    assert episodes["dataset_to_index"] == [3, 6, 9, 12, 15, 18]


def test_lerobot_reads_it(folder):
    found, own = lerobot_loader.read(folder / "lerobot"), load(folder)
    assert (found["version"], found["episodes"], found["chunk"]) == ("v3.0", 6, [2, 4])
    assert found["cameras"] == ["observation.images.hand", "observation.images.scene"]
    assert found["shapes"]["observation.images.scene"] == [3, 32, 48]
    assert found["tasks"][0] == "Reach a goal position in space."
    assert np.array_equal(np.float32(found["action"]), own.action.numpy())
    bright = pictures(table(folder), "scene").mean((1, 2, 3)) / 255
    assert np.allclose([row[1] for row in found["brightness"]], bright, atol=1e-4)


def test_a_parkour_terrain_is_drawn_with_its_own_course(tmp_path):
    words = ["policy=random", "episodes=2", "episode_length=2", "threads=1", "width=32", "height=32", "num_envs=2"]
    words += ["export=lerobot", f"output={tmp_path / 'x'}", "format=json"]
    assert main(["collect", "tasks=[wide-stairs]", *words]) == 0
    data, own = table(tmp_path / "x"), load(tmp_path / "x")
    assert np.shape(data["observation.state"]) == tuple(own.obs.shape)
    assert "observation.environment_state" not in data
    env = polytask.make(tasks=own.tasks, num_envs=2, episode_length=2, stagger=False, threads=1)
    env.seed(int(own.seed[0]))
    env.reset()
    with closing(Renderer(env, "wide-stairs", 32, 32)) as renderer:
        for world, picture in enumerate(pictures(data, "scene")[::2]):
            renderer.follow_layout(world)
            unmarked = replace(pose_of(env, "wide-stairs", world), marks=())  # waypoints are for films
            assert np.array_equal(picture, renderer.draw(unmarked))


def test_a_robot_without_an_arm_has_one_camera(capsys, tmp_path):
    words = ["policy=random", "episodes=1", "episode_length=2", "threads=1", "export=lerobot", "cameras=[hand]"]
    assert main(["collect", "tasks=[flat]", *words, f"output={tmp_path / 'x'}"]) == 2
    assert "camera 'hand' looks at an arm, and the robot of 'flat' has none; use scene" in capsys.readouterr().err
    assert not (tmp_path / "x" / "lerobot").exists()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["cameras=[ceiling]"], "cameras=ceiling is not valid"),
        (["cameras=[]"], "cameras is empty"),
        (["cameras=[top,top]"], "each camera can be named once"),
        (["width=8"], "width=8 is not valid"),
        (["export=minari", "cameras=[scene]"], "cameras does not apply: only export=lerobot has pictures"),
        (["export=null", "height=64"], "height does not apply: only export=lerobot has pictures"),
    ],
)
def test_a_mistake_is_one_line(capsys, tmp_path, words, line):
    assert run(*words, f"output={tmp_path / 'x'}") == 2
    assert line in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_missing_extra_is_named_before_anything_is_played(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("polytask.datasets.lerobot.find_spec", lambda name: None)
    assert run("episodes=1", f"output={tmp_path / 'x'}") == 2
    assert capsys.readouterr().err == "polytask: tables of data sets need an extra: pip install 'polytask[export]'\n"
    assert not list(tmp_path.iterdir())


def test_half_a_data_set_is_removed(tmp_path, monkeypatch):
    def killed(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("polytask.datasets.collect_lerobot.LeRobotExport.add", killed)
    assert run("episodes=1", "num_envs=2", "width=16", "height=16", f"output={tmp_path / 'x'}") == 130
    assert not (tmp_path / "x" / "lerobot").exists()
    assert len(load(tmp_path / "x")) == 2
