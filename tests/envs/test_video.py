"""Recording with a fake renderer: frames are drawn one at a time, and every renderer is closed."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from imageio_ffmpeg import count_frames_and_secs
from torch import Tensor

import polytask
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.video import VideoFormat, record_video
from polytask.errors import UserError

FORMAT = VideoFormat(8, 6)


class Painter:
    """A renderer that draws grey pictures, and counts them and the open renderers."""

    drawn = opened = 0

    simple: ClassVar[list[bool]] = []  # for each renderer, whether its pictures are simple ones

    def __init__(self, env: MultiTaskEnv, task: str, width: int, height: int, *, is_simple: bool) -> None:
        self.image = np.full((height, width, 3), 128, dtype=np.uint8)
        type(self).opened += 1
        self.simple.append(is_simple)

    def frame(self, world: int) -> np.ndarray:
        type(self).drawn += 1
        return self.image

    def close(self) -> None:
        type(self).opened -= 1


@pytest.fixture
def painter(monkeypatch: pytest.MonkeyPatch) -> type[Painter]:
    kind = type("CountingPainter", (Painter,), {"simple": []})
    monkeypatch.setattr("polytask.envs.video.Renderer", kind)
    return kind


def reach(episode_length: int) -> MultiTaskEnv:
    return polytask.make(tasks=["reach"], num_envs=1, episode_length=episode_length, stagger=False, threads=1)


def stand_still(obs: Tensor, task: Tensor) -> Tensor:
    return torch.zeros(1, 4)


def test_each_frame_is_written_before_the_next_is_drawn(
    painter: type[Painter], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    drawn = []  # number of frames drawn when each frame is written

    def write_frames(path: str, **options: object) -> Generator[None, bytes, None]:
        with Path(path).open("wb") as file:
            while True:
                file.write((yield))
                drawn.append(painter.drawn)

    monkeypatch.setattr("imageio_ffmpeg.write_frames", write_frames)
    monkeypatch.setattr("imageio_ffmpeg.count_frames_and_secs", lambda path: (len(drawn), 1.0))
    assert record_video(reach(6), stand_still, tmp_path / "video.mp4", FORMAT) == 5
    assert drawn == [1, 2, 3, 4, 5]
    assert painter.opened == 0


@pytest.mark.parametrize(("tasks", "simple"), [(["reach"], [False]), (["reach", "push"], [True, True])])
def test_the_pictures_of_a_grid_are_simple_ones(
    painter: type[Painter], tmp_path: Path, tasks: list[str], simple: list[bool]
) -> None:
    env = polytask.make(tasks=tasks, num_envs=len(tasks), episode_length=3, stagger=False, threads=1)
    record_video(env, lambda obs, task: torch.zeros(len(tasks), 4), tmp_path / "video.mp4", FORMAT)
    assert painter.simple == simple
    assert painter.opened == 0


def test_renderers_are_closed_if_the_policy_fails(painter: type[Painter], tmp_path: Path) -> None:
    def fail(obs: Tensor, task: Tensor) -> Tensor:
        raise ValueError("broken policy")

    with pytest.raises(ValueError, match="broken policy"):
        record_video(reach(6), fail, tmp_path / "video.mp4", FORMAT)
    assert painter.opened == 0


def test_an_episode_of_one_step_is_refused(painter: type[Painter], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="episode_length must be at least 2"):
        record_video(reach(1), stand_still, tmp_path / "video.mp4", FORMAT)
    assert not list(tmp_path.iterdir())


def test_odd_sizes_are_written_without_a_warning(
    painter: type[Painter], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record_video(reach(4), stand_still, tmp_path / "video.mp4", VideoFormat(17, 33))
    assert not caplog.records
    assert count_frames_and_secs(tmp_path / "video.mp4")[0] == 3


def cut_off(path: str) -> tuple[int, float]:
    return 2, 1.0


def unreadable(path: str) -> tuple[int, float]:
    raise RuntimeError("could not get the number of frames")


@pytest.mark.parametrize("count", [cut_off, unreadable])
def test_a_video_that_ffmpeg_does_not_complete_is_an_error_and_the_old_one_stays(
    painter: type[Painter], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, count: Callable[[str], object]
) -> None:
    path = tmp_path / "video.mp4"
    path.write_text("old")
    monkeypatch.setattr("imageio_ffmpeg.count_frames_and_secs", count)
    with pytest.raises(UserError, match=r"^cannot write '.*video\.mp4': ffmpeg did not complete the video"):
        record_video(reach(6), stand_still, path, FORMAT)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_if_ffmpeg_ends_early_the_message_is_one_line(
    painter: type[Painter], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def write_frames(path: str, **options: object) -> Generator[None, bytes, None]:
        yield
        raise OSError("Broken pipe\n\nFFMPEG COMMAND:\nffmpeg -y ...")

    monkeypatch.setattr("imageio_ffmpeg.write_frames", write_frames)
    with pytest.raises(UserError, match=r"^[^\n]*ffmpeg did not complete the video[^\n]*$"):
        record_video(reach(6), stand_still, tmp_path / "video.mp4", FORMAT)
    assert not list(tmp_path.iterdir())
    assert painter.opened == 0
