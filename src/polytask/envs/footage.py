"""Film an evaluation: keep the poses of some worlds while it runs, and draw them afterwards.

So a video needs no worlds and no episode of its own. Drawing is the expensive part: where OpenGL runs in software, a
picture takes a hundredth of a second, and an episode of fifty tasks has thousands. So drawing gets a limited time. If
that is short, only every second or third step is drawn, and the video has fewer frames per second at the same speed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path

from polytask.envs.captions import Caption, CaptionReader, Image, add_caption
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.render import Pose, Renderer, pose_of
from polytask.envs.render_progress import RenderProgress
from polytask.envs.video import VideoFormat, frames_of, open_renderers, save_video, tile

MIN_FRAMES_PER_SECOND = 5


class Footage:
    """The poses of the first world of each task, one set per control step."""

    def __init__(self, env: MultiTaskEnv) -> None:
        """Prepare to film an environment at the start of its episodes."""
        self._env = env
        self._captions = CaptionReader(env)
        self._poses: list[list[Pose]] = []  # (T, K)
        self._texts: list[list[Caption]] = []  # (T, K)

    def take(self) -> None:
        """Keep the current poses. Call it before every step of an episode."""
        self._poses.append([pose_of(self._env, task) for task in self._env.spec.tasks])
        self._texts.append(self._captions.read())

    def write(self, path: Path, video: VideoFormat, seconds: float) -> int:
        """Draw the episode and write the video.

        Args:
            path: File to write.
            video: Size of the pictures and largest number of frames per second.
            seconds: How long drawing may take, if five frames per second allow it.

        Returns:
            The number of frames.

        Raises:
            UserError: As `record_video`.
        """
        poses, rate = self._poses[: frames_of(self._env)], video.rate(self._env)
        with open_renderers(self._env, video) as renderers:
            for renderer in renderers:
                renderer.follow_layout()
            stride = _stride(renderers, poses, rate, seconds)
            if video.most_drawn is not None:
                stride = max(stride, math.ceil(rate / video.most_drawn))
            chosen = poses[::stride]
            with closing(_draw(renderers, chosen, self._texts[: len(poses) : stride])) as frames:
                save_video(path, frames, rate / stride, len(chosen))
        return len(chosen)


def _stride(
    renderers: Sequence[Renderer], poses: Sequence[Sequence[Pose]], frames_per_second: int, seconds: float
) -> int:
    """Return how many steps to advance from one frame to the next. The second of two frames is timed."""
    for _ in range(2):
        begin = time.perf_counter()
        for renderer, pose in zip(renderers, poses[0], strict=True):
            renderer.draw(pose)
        took = time.perf_counter() - begin
    largest = max(1, frames_per_second // MIN_FRAMES_PER_SECOND)
    return min(largest, max(1, math.ceil(took * len(poses) / seconds)))


def _draw(
    renderers: Sequence[Renderer], poses: Sequence[Sequence[Pose]], texts: Sequence[Sequence[Caption]]
) -> Generator[Image, None, None]:
    """Draw one frame after another."""
    with RenderProgress("drawing the video", len(poses)) as progress:
        for step, captions in zip(poses, texts, strict=True):
            worlds = zip(renderers, step, captions, strict=True)
            yield tile([add_caption(renderer.draw(pose), text) for renderer, pose, text in worlds])
            progress.advance()
