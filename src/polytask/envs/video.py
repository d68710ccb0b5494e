"""Record a policy as a video or an animated GIF: one episode of every task, side by side."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from polytask.envs.captions import CaptionReader, Image, add_caption
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.render import Renderer
from polytask.envs.render_progress import RenderProgress
from polytask.errors import UserError
from polytask.files import write_atomically

SUFFIXES = (".mp4", ".gif")
MOST_GIF_FRAMES = 25  # per second; viewers show frames of less than 20 ms slowly, and files grow with the number
# Encoder, pixel format and filter. H.264 needs even sizes. A GIF has 256 colours, chosen anew for each frame: so ffmpeg
# need not keep the frames in memory until the last one has come.
_ENCODERS = {
    ".mp4": ("libx264", "yuv420p", "pad=ceil(iw/2)*2:ceil(ih/2)*2"),
    ".gif": (
        "gif",
        "pal8",
        "split[one][two];[one]palettegen=stats_mode=single[colours];[two][colours]paletteuse=new=1",
    ),
}
_INCOMPLETE = "ffmpeg did not complete the video; the disk may be full"


@dataclass(frozen=True)
class VideoFormat:
    """Size and speed of a video."""

    width: int = 480  # pixels per task
    height: int = 360
    frames_per_second: int | None = None  # one frame per control step; None: as fast as the robot moves
    most_drawn: int | None = None  # frames per second, at most, that a footage draws of these

    def rate(self, env: MultiTaskEnv) -> int:
        """Return the number of control steps that one second of the video shows."""
        return self.frames_per_second or env.config.domain.control_rate


@torch.no_grad()
def record_video(env: MultiTaskEnv, policy: Callable[[Tensor, Tensor], Tensor], path: Path, video: VideoFormat) -> int:
    """Play one episode in the first world of each task, write the video and return its number of frames.

    A world whose episode ends before those of the others keeps its last picture. A video has one frame per control
    step. A GIF leaves frames out if it had more than `MOST_GIF_FRAMES` per second.

    Raises:
        UserError: If a required library is missing, an episode is too short or the file cannot be written. Then there
            is no new file.
    """
    steps, rate = frames_of(env), video.rate(env)
    stride = math.ceil(rate / MOST_GIF_FRAMES) if path.suffix == ".gif" else 1
    count = math.ceil(steps / stride)
    with closing(_frames(env, policy, video, steps, stride)) as frames:
        save_video(path, frames, rate / stride, count)
    return count


def check_suffix(path: Path) -> None:
    """Check that a file name says which kind of video it is."""
    if path.suffix not in SUFFIXES:
        raise UserError(f"'{path.name}' is not the name of a video; it must end in {' or '.join(SUFFIXES)}")


def frames_of(env: MultiTaskEnv) -> int:
    """Return the number of frames of an episode: after its last step, the worlds already show the next one.

    Raises:
        UserError: If a required library is missing or an episode is too short.
    """
    if find_spec("imageio_ffmpeg") is None or find_spec("PIL") is None:
        raise UserError("no video: it needs an extra, pip install 'polytask[video]'")
    steps = env.spec.episode_length - 1
    if steps < 1:
        raise UserError("no video: the last step of an episode is not shown, so episode_length must be at least 2")
    return steps


def save_video(path: Path, frames: Iterator[Image], frames_per_second: float, count: int) -> None:
    """Write a video of `count` frames, each as soon as it is drawn.

    Raises:
        UserError: If the file cannot be written. Then there is no new file.
    """
    first = next(frames)  # without OpenGL this fails here, before any file exists

    def write(temporary: Path) -> None:
        _encode(temporary, path.suffix, chain([first], frames), frames_per_second)
        _check_video(temporary, count)

    write_atomically(path, write)


def _encode(path: Path, suffix: str, images: Iterator[Image], frames_per_second: float) -> None:
    """Write the images, one at a time: a whole video would take gigabytes of memory.

    Raises:
        OSError: If ffmpeg cannot write the file.
    """
    from imageio_ffmpeg import write_frames

    first = next(images)
    codec, pixels, picture_filter = _ENCODERS[suffix]
    path.touch()  # where this is refused, the error says why; ffmpeg would only end
    writer = write_frames(
        str(path.absolute()),  # ffmpeg reads "name:" at the beginning as a protocol
        size=(first.shape[1], first.shape[0]),
        fps=frames_per_second,
        macro_block_size=1,
        codec=codec,
        pix_fmt_out=pixels,
        output_params=["-vf", picture_filter, "-f", suffix[1:]],
        ffmpeg_log_level="quiet",
        ffmpeg_timeout=0,  # do not kill ffmpeg if it is slow
    )
    with closing(writer):
        writer.send(None)
        for image in chain([first], images):
            try:
                writer.send(image.tobytes())
            except OSError as error:  # ffmpeg has ended early; the message has many lines
                raise OSError(_INCOMPLETE) from error


def _check_video(path: Path, frames: int) -> None:
    """Check that a video has all frames: if ffmpeg fails while it finishes the file, its writer does not notice.

    Raises:
        OSError: If the file is incomplete.
    """
    from imageio_ffmpeg import count_frames_and_secs

    try:
        found, _ = count_frames_and_secs(str(path.absolute()))
    except RuntimeError as error:
        raise OSError(_INCOMPLETE) from error
    if found != frames:
        raise OSError(_INCOMPLETE)


def _frames(
    env: MultiTaskEnv, policy: Callable[[Tensor, Tensor], Tensor], video: VideoFormat, steps: int, stride: int
) -> Generator[Image, None, None]:
    """Draw the worlds before every `stride`-th of `steps` steps."""
    captions = CaptionReader(env, first_only=True)
    drawn: list[Image] = []  # the last picture of every task
    with open_renderers(env, video) as renderers, RenderProgress("drawing the video", steps) as progress:
        for step in range(steps):
            texts = captions.read()
            if step % stride == 0:
                worlds = enumerate(zip(renderers, texts, strict=True))
                drawn = [drawn[at] if text.is_over else one.frame(0) for at, (one, text) in worlds]
                yield tile([add_caption(one, text) for one, text in zip(drawn, texts, strict=True)])
            env.step(policy(env.obs, env.task))
            progress.advance()


@contextmanager
def open_renderers(
    env: MultiTaskEnv, video: VideoFormat, seconds: float = math.inf
) -> Generator[list[Renderer], None, None]:
    """Open a renderer for every task of a video, and close them at the end.

    A grid has simple pictures, because it has many: drawing is nearly all of the time that a film takes.

    Raises:
        TimeoutError: If opening all of them would take longer than `seconds`, as the first ones show. In software, each
            takes half a second.
    """
    tasks, begin, opened = env.spec.tasks, time.perf_counter(), []
    with ExitStack() as stack:
        for task in tasks:
            renderer = Renderer(env, task, video.width, video.height, is_simple=len(tasks) > 1)
            opened.append(stack.enter_context(closing(renderer)))
            if (time.perf_counter() - begin) / len(opened) * len(tasks) > seconds:
                raise TimeoutError
        yield opened


def tile(images: list[Image]) -> Image:
    """Arrange images in a square grid, or in up to 1.5 times as many columns if that leaves fewer empty cells."""
    square = math.ceil(math.sqrt(len(images)))
    columns = min(range(square, 3 * square // 2 + 1), key=lambda count: -len(images) % count)
    rows = math.ceil(len(images) / columns)
    height, width, _ = images[0].shape
    grid = np.zeros((rows, height, columns, width, 3), dtype=np.uint8)
    for index, image in enumerate(images):
        grid[index // columns, :, index % columns] = image
    return grid.reshape(rows * height, columns * width, 3)
