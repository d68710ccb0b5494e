"""Videos. A fake renderer replaces OpenGL, which not every machine has."""

import os

import numpy as np
import pytest
from imageio_ffmpeg import count_frames_and_secs
from PIL import Image

from polytask.cli.main import main
from polytask.envs.video import tile
from polytask.errors import UserError

WORDS = ["tasks=[reach,drawer-close]", "episode_length=9", "threads=1"]
NO_OPENGL = "no pictures: install something"


class Painter:
    """A renderer that draws a grey picture."""

    def __init__(self, env, task, width, height, *, is_simple):
        self.image = np.full((height, width, 3), 128, dtype=np.uint8)

    def frame(self, world):
        return self.image

    def draw(self, pose):
        return self.image

    def follow_layout(self):
        pass

    def close(self):
        pass


class Blind:
    """A renderer that finds no OpenGL."""

    def __init__(self, *arguments, is_simple):
        raise UserError(NO_OPENGL)


@pytest.fixture
def renderer(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lambda kind: monkeypatch.setattr("polytask.envs.video.Renderer", kind)


def test_an_episode_becomes_a_video(renderer, tmp_path, capsys):
    renderer(Painter)
    assert main(["record", "policy=scripted", *WORDS, "width=64", "height=48", "output=film.mp4"]) == 0
    assert capsys.readouterr().out == "video: film.mp4 (8 frames)\n"
    assert count_frames_and_secs("film.mp4") == (8, pytest.approx(8 / 80, abs=0.03))
    assert [path.name for path in tmp_path.iterdir()] == ["film.mp4"]


def test_a_gif_is_a_gif_at_the_speed_of_the_robot(renderer, capsys):
    renderer(Painter)
    assert main(["record", "policy=scripted", *WORDS, "width=64", "height=48", "output=film.gif"]) == 0
    assert capsys.readouterr().out == "video: film.gif (2 frames)\n"  # steps 0 and 4 of 8
    with Image.open("film.gif") as film:
        assert (film.format, film.size, film.n_frames) == ("GIF", (128, 48), 2)
        assert film.info["duration"] == 50  # milliseconds, in which the robot takes four steps
        assert film.info["loop"] == 0  # for ever


def test_fewer_frames_per_second_are_slow_motion(renderer):
    renderer(Painter)
    assert main(["record", "policy=scripted", *WORDS, "width=64", "height=48", "frames_per_second=20"]) == 0
    assert count_frames_and_secs("polytask.mp4") == (8, pytest.approx(8 / 20, abs=0.03))


def test_without_opengl_recording_is_one_line_and_no_file(renderer, tmp_path, capsys):
    renderer(Blind)
    assert main(["record", "policy=scripted", "task=reach", "episode_length=9"]) == 2
    assert capsys.readouterr().err == f"polytask: {NO_OPENGL}\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("folder", "output=folder is a folder; name a file, such as polytask.mp4"),
        ("pipe", "output=pipe is not a regular file; name a file, such as polytask.mp4"),
        ("nowhere/film.mp4", "there is no folder 'nowhere' to write the video to"),
        ("film.avi", "'film.avi' is not the name of a video; it must end in .mp4 or .gif"),
        ("film", "'film' is not the name of a video; it must end in .mp4 or .gif"),
    ],
)
def test_an_output_that_cannot_be_is_refused_before_the_worlds_are_built(monkeypatch, tmp_path, capsys, output, line):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("polytask.tools.video.build_env", None)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert main(["record", "policy=scripted", *WORDS, f"output={output}"]) == 2
    assert capsys.readouterr().err == f"polytask: {line}\n"


def test_a_folder_that_refuses_files_is_named(renderer, capsys):
    renderer(Painter)
    assert main(["record", "policy=scripted", *WORDS, "output=/proc/film.mp4"]) == 2
    assert capsys.readouterr().err.startswith("polytask: cannot write '/proc/film.mp4': ")


@pytest.mark.parametrize("word", ["width=0", "width=100000", "height=-1", "frames_per_second=0"])
def test_sizes_and_rates_have_limits(monkeypatch, capsys, word):
    monkeypatch.setattr("polytask.tools.video.build_env", None)
    assert main(["record", "policy=scripted", *WORDS, word]) == 2
    assert capsys.readouterr().err.startswith(f"polytask: {word} is not valid; it must be at least ")


@pytest.mark.parametrize(("kind", "line"), [(Painter, "video: here/video.mp4 (8 frames)"), (Blind, NO_OPENGL)])
def test_training_ends_with_a_video_or_says_why_not(renderer, monkeypatch, tmp_path, capsys, kind, line):
    renderer(kind)
    monkeypatch.setattr("polytask.runs.train.END_SHARE", 10_000.0)  # the run takes less than a second
    words = ["num_envs=2", "algo.horizon=4", "max_iterations=1", "eval_episodes=0", "run_dir=here"]
    assert main(["train", *WORDS, *words]) == 0
    assert line in capsys.readouterr().out.splitlines()
    assert (tmp_path / "here" / "video.mp4").exists() == (kind is Painter)


@pytest.mark.parametrize("episodes", [0, 2])
def test_a_run_that_is_too_short_for_a_video_says_how_to_draw_one(renderer, monkeypatch, tmp_path, capsys, episodes):
    renderer(Painter)
    for share in ("END_SHARE", "VIDEO_SHARE"):
        monkeypatch.setattr(f"polytask.runs.train.{share}", 0.0)
    words = ["num_envs=2", "algo.horizon=4", "max_iterations=1", f"eval_episodes={episodes}", "run_dir=here"]
    assert main(["train", *WORDS, *words]) == 0
    line = "no video: it would take too much of so short a run; polytask record checkpoint=here draws it"
    assert line in capsys.readouterr().out.splitlines()
    assert not (tmp_path / "here" / "video.mp4").exists()
    assert main(["record", "checkpoint=here", "width=64", "height=48", "output=here/video.mp4"]) == 0


@pytest.mark.parametrize(
    ("count", "grid"), [(1, (1, 1)), (2, (1, 2)), (3, (1, 3)), (5, (2, 3)), (10, (2, 5)), (50, (5, 10))]
)
def test_tiles_leave_few_holes(count, grid):
    images = [np.full((4, 6, 3), index + 1, dtype=np.uint8) for index in range(count)]
    picture = tile(images)
    assert picture.shape == (4 * grid[0], 6 * grid[1], 3)
    rows = picture[::4, ::6, 0]  # one pixel of each tile
    assert rows.flatten()[:count].tolist() == list(range(1, count + 1))
    assert not rows.flatten()[count:].any()
