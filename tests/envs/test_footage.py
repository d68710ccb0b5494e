"""Filming an evaluation with a fake renderer and a fake clock: which steps are drawn, and how fast the video is."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import polytask
from polytask.envs import footage, video
from polytask.envs.footage import Footage
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.render import Pose, pose_of
from polytask.envs.video import VideoFormat
from polytask.errors import UserError

FORMAT = VideoFormat(8, 6, frames_per_second=40)
STEPS = 13
MEASURING = 1.0  # seconds that the two pictures take which are drawn first, and not shown


class Studio:
    """What a test sees of a film: the poses that were drawn, the frames that were written, and the open renderers."""

    def __init__(self, seconds_per_picture: float) -> None:
        self.drawn: list[Pose] = []
        self.layouts = self.opened = self.frames = 0
        self.is_simple: bool | None = None  # what the last renderer was asked for
        self.frames_per_second = self.now = 0.0
        self.seconds_per_picture = seconds_per_picture
        self.seconds_to_open = 0.0

    def renderer(self, env: MultiTaskEnv, task: str, width: int, height: int, *, is_simple: bool) -> SimpleNamespace:
        self.opened += 1
        self.now += self.seconds_to_open
        self.is_simple = is_simple

        def draw(pose: Pose) -> np.ndarray:
            self.now += self.seconds_per_picture
            self.drawn.append(pose)
            return np.zeros((height, width, 3), dtype=np.uint8)

        def follow_layout() -> None:
            self.layouts += 1

        def close() -> None:
            self.opened -= 1

        return SimpleNamespace(draw=draw, follow_layout=follow_layout, close=close)

    def write_frames(self, path: str, *, fps: float, **options: object) -> Generator[None, bytes, None]:
        self.frames_per_second = fps
        while True:
            Path(path).write_bytes((yield))
            self.frames += 1


@pytest.fixture
def studio(monkeypatch: pytest.MonkeyPatch) -> Studio:
    studio = Studio(seconds_per_picture=0.5)
    monkeypatch.setattr("polytask.envs.video.Renderer", studio.renderer)
    for module in (footage, video):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: studio.now))
    monkeypatch.setattr("imageio_ffmpeg.write_frames", studio.write_frames)
    monkeypatch.setattr("imageio_ffmpeg.count_frames_and_secs", lambda path: (studio.frames, 1.0))
    return studio


def filmed(tasks: list[str], episode_length: int = STEPS) -> tuple[Footage, list[Pose]]:
    """Film an episode. Return the footage, and the poses of the first world of the first task."""
    env = polytask.make(tasks=tasks, num_envs=2 * len(tasks), episode_length=episode_length, stagger=False, threads=1)
    film, poses = Footage(env), []
    for _ in range(episode_length):
        film.take()
        poses.append(pose_of(env, tasks[0]))
        env.step(torch.ones(2 * len(tasks), 4))
    return film, poses


def test_every_step_but_the_last_is_drawn_if_there_is_time(studio: Studio, tmp_path: Path) -> None:
    film, poses = filmed(["reach"])
    assert film.write(tmp_path / "video.mp4", FORMAT, seconds=MEASURING + 6.0) == STEPS - 1
    assert (studio.frames, studio.frames_per_second) == (STEPS - 1, 40.0)
    shown = studio.drawn[-(STEPS - 1) :]  # before these, frames are drawn to measure the time
    assert all(np.array_equal(one.qpos, other.qpos) for one, other in zip(shown, poses[:-1], strict=True))
    assert (studio.layouts, studio.opened, studio.is_simple) == (1, 0, False)


@pytest.mark.parametrize(("seconds", "stride"), [(5.9, 2), (3.0, 2), (2.9, 3), (1.0, 6), (0.9, 8), (-0.5, 8)])
def test_less_time_means_fewer_frames_at_the_same_speed(
    studio: Studio, tmp_path: Path, seconds: float, stride: int
) -> None:
    film, _ = filmed(["reach"])
    count = len(range(0, STEPS - 1, stride))
    assert film.write(tmp_path / "video.mp4", FORMAT, seconds=MEASURING + seconds) == count
    assert (studio.frames, studio.frames_per_second) == (count, 40.0 / stride)


def test_the_time_is_for_the_pictures_of_all_tasks(studio: Studio, tmp_path: Path) -> None:
    film, _ = filmed(["reach", "push"])
    assert film.write(tmp_path / "video.mp4", FORMAT, seconds=2 * MEASURING + 6.0) == (STEPS - 1) / 2
    assert (studio.layouts, studio.opened, studio.is_simple) == (2, 0, True)


@pytest.mark.parametrize(("seconds", "count"), [(1.0, 2), (0.9, 0), (-0.5, 0), (-MEASURING, 0), (-60.0, 0)])
def test_a_video_that_is_not_required_is_left_out_if_five_frames_per_second_take_too_long(
    studio: Studio, tmp_path: Path, seconds: float, count: int
) -> None:
    film, _ = filmed(["reach"])
    found = film.write(tmp_path / "video.mp4", FORMAT, seconds=MEASURING + seconds, is_required=False)
    assert (found, studio.frames, studio.opened) == (count, count, 0)
    assert (tmp_path / "video.mp4").exists() == (count > 0)
    assert len(studio.drawn) == (0 if seconds <= -MEASURING else 2 + count)  # without time, nothing is measured


@pytest.mark.parametrize(
    ("seconds", "count", "drawn"),
    [(3.9, 0, 0), (4.0, 0, 4), (6.0 + 2.0, 2, 8)],  # to open two renderers, to measure two pictures, to draw four
)
def test_the_time_to_open_opengl_counts(studio: Studio, tmp_path: Path, seconds: float, count: int, drawn: int) -> None:
    studio.seconds_to_open = 2.0
    film, _ = filmed(["reach", "push"])
    assert film.write(tmp_path / "video.mp4", FORMAT, seconds=seconds, is_required=False) == count
    assert (len(studio.drawn), studio.opened) == (drawn, 0)
    if drawn == 0:
        assert studio.now == 2.0  # the first renderer shows that there is no time for two


def test_renderers_are_closed_if_the_file_cannot_be_written(studio: Studio, tmp_path: Path) -> None:
    film, _ = filmed(["reach"])
    with pytest.raises(UserError, match="cannot write"):
        film.write(tmp_path / "missing" / "video.mp4", FORMAT, seconds=6.0)
    assert studio.opened == 0


def test_an_episode_of_one_step_is_refused(studio: Studio, tmp_path: Path) -> None:
    film, _ = filmed(["reach"], episode_length=1)
    with pytest.raises(UserError, match="episode_length must be at least 2"):
        film.write(tmp_path / "video.mp4", FORMAT, seconds=6.0)
