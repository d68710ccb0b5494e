"""The task gallery: its ranges and its measurements. A fake renderer replaces OpenGL."""

import errno
import json
import os

import numpy as np
import pytest
import torch
from PIL import Image

import polytask
from polytask.cli.main import main
from polytask.config.schema import GalleryConfig
from polytask.envs.suites import SUITES
from polytask.envs.tasks import TASKS
from polytask.errors import UserError
from polytask.tools.gallery import Figures, describe, measure, write_page


class Painter:
    """A renderer that draws every world in one colour."""

    def __init__(self, env, task, width, height):
        self.image = np.full((height, width, 3), 200, np.uint8)

    def draw(self, pose):
        return self.image

    def close(self):
        pass


class Blind:
    """A renderer that finds no OpenGL."""

    def __init__(self, *_):
        raise UserError("no pictures: install something")


def test_ranges_say_what_is_placed_where():
    text = describe(TASKS["peg-insert-side"])
    assert text.split("<br>") == [
        "`[0 to 0.2, 0.5 to 0.7, 0.02, -0.35 to -0.25, 0.4 to 0.7, -0.001 to 0.001]`",
        "with `[0:2]` and `[3:5]` at least 0.1 apart",
        "goal: x -0.32 to -0.22, y 0.4 to 0.7, z 0.129 to 0.131",
        "box: x -0.35 to -0.25, y 0.4 to 0.7, z -0.001 to 0.001",
        "peg: x 0 to 0.2, y 0.5 to 0.7, z 0.02",
    ]


@pytest.mark.parametrize("name", SUITES["mt50"])
def test_every_task_can_be_described(name):
    task = TASKS[name]
    assert "goal: x " in describe(task)
    assert task.summary
    assert task.success_rule


def test_the_expert_is_measured_and_a_moment_before_success_is_kept():
    env = polytask.make(tasks=["reach"], num_envs=4, episode_length=80, stagger=False, threads=1)
    figures = measure(env)["reach"]
    assert figures.success == 1.0
    assert 10 < figures.first_step < 80
    # The goal marker is inside the range of goals.
    marker = int(env.groups[0].batch.model.body("goal").mocapid[0])
    start = TASKS["reach"].start
    goals = start.place(torch.tensor([start.low, start.high])).target
    assert (torch.from_numpy(figures.pose.mocap_pos[marker]) >= goals[0] - 1e-6).all()
    assert (torch.from_numpy(figures.pose.mocap_pos[marker]) <= goals[1] + 1e-6).all()


def test_a_task_that_is_never_solved_still_has_a_row():
    env = polytask.make(tasks=["push"], num_envs=2, episode_length=3, stagger=False, threads=1)
    figures = measure(env)["push"]
    assert (figures.success, figures.first_step) == (0.0, None)
    config = GalleryConfig(episodes=2, episode_length=3)
    lines = write_page({"push": Figures(0.0, None, figures.pose)}, config, "gallery").splitlines()
    assert "robot sawyer, CPU, 2 goals per task," in lines[2]
    row = lines[-1]
    assert row.startswith("| ![push](gallery/push.jpg) | **push** (version 1)<br>")
    assert row.endswith("| 0.00 | - |")


def test_the_command_writes_page_and_pictures(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("polytask.tools.gallery.Renderer", Painter)
    words = ["tasks=[reach]", "episodes=2", "episode_length=60", "width=64", "height=48", "threads=1", "format=json"]
    assert main(["gallery", f"output={tmp_path / 'gallery'}", *words]) == 0
    out, _ = capsys.readouterr()
    assert json.loads(out)["tasks"]["reach"]["success"] == 1.0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gallery", "gallery.md"]
    with Image.open(tmp_path / "gallery" / "reach.jpg") as picture:
        assert (picture.format, picture.size) == ("JPEG", (64, 48))
    assert "![reach](gallery/reach.jpg)" in (tmp_path / "gallery.md").read_text()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["tasks=[reech]"], "unknown task 'reech'; did you mean 'reach'?"),
        (["episodes=0"], "episodes=0"),
        (["width=9999"], "width=9999 is not valid; it must be at least 16 and at most 640"),
        (["tasks=[]"], "tasks=[] names no task"),
        (["output=/"], "output=/ has no name for the page"),
        (["output=."], "output=. has no name for the page"),
    ],
)
def test_a_mistake_is_one_line(capsys, monkeypatch, tmp_path, words, line):
    monkeypatch.chdir(tmp_path)
    assert main(["gallery", *words]) == 2
    assert line in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_without_opengl_nothing_is_measured_or_written(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("polytask.tools.gallery.Renderer", Blind)
    monkeypatch.setattr("polytask.tools.gallery.measure", None)
    assert main(["gallery", "tasks=[reach]", "episodes=1", f"output={tmp_path / 'gallery'}"]) == 2
    assert capsys.readouterr().err == "polytask: no pictures: install something\n"
    assert not list(tmp_path.iterdir())


def test_a_folder_that_refuses_files_is_named_before_anything_is_measured(capsys, monkeypatch, tmp_path):
    def refuse(dir):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("polytask.tools.gallery.Renderer", Painter)
    monkeypatch.setattr("polytask.tools.gallery.measure", None)
    monkeypatch.setattr("polytask.tools.gallery.TemporaryFile", refuse)
    assert main(["gallery", "tasks=[reach]", "episodes=1", f"output={tmp_path / 'gallery'}"]) == 2
    assert capsys.readouterr().err == f"polytask: cannot write '{tmp_path / 'gallery'}': Read-only file system\n"


def test_the_name_of_the_page_may_be_taken(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("polytask.tools.gallery.make", None)
    (tmp_path / "gallery.md").mkdir()
    assert main(["gallery", f"output={tmp_path / 'gallery'}"]) == 2
    assert "something else has this name" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["gallery.md"]


def test_a_missing_extra_is_named(capsys, monkeypatch):
    monkeypatch.setattr("polytask.tools.gallery.find_spec", lambda name: None)
    assert main(["gallery"]) == 2
    assert "pip install 'polytask[video]'" in capsys.readouterr().err
