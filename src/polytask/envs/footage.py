"""Film an evaluation: keep the poses of some worlds while it runs, and draw them afterwards.

So a video needs no worlds and no episode of its own. Drawing is the expensive part: where OpenGL runs in software, a
picture takes a hundredth of a second, and an episode of fifty tasks has thousands. So drawing gets a limited time. If
that is short, only every second or third step is drawn, and the video has fewer frames per second at the same speed.
If it is too short even for five frames per second, there is no video, unless it must be written.
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
        self._captions = CaptionReader(env, first_only=True)
        self._poses: list[list[Pose]] = []  # (T, K)
        self._texts: list[list[Caption]] = []  # (T, K)

    def take(self) -> None:
        """Keep the current poses, or the last ones where the episode is over. Call it before every step."""
        texts, tasks = self._captions.read(), self._env.spec.tasks
        last = self._poses[-1] if self._poses else []
        poses = [last[at] if text.is_over else pose_of(self._env, tasks[at]) for at, text in enumerate(texts)]
        self._poses.append(poses)
        self._texts.append(texts)

    def write(self, path: Path, video: VideoFormat, seconds: float, *, is_required: bool = True) -> int:
        """Draw the episode and write the video.

        Args:
            path: File to write.
            video: Size of the pictures and largest number of frames per second.
            seconds: How long drawing may take, the time to open OpenGL included.
            is_required: Whether to write the video also if five frames per second take longer than that.

        Returns:
            The number of frames; 0 if there was too little time, and so there is no file.

        Raises:
            UserError: As `record_video`.
        """
        begin, limit = time.perf_counter(), math.inf if is_required else seconds
        steps, rate = frames_of(self._env), video.rate(self._env)
        if limit <= 0:
            return 0
        try:
            with open_renderers(self._env, video, limit) as renderers:
                for renderer in renderers:
                    renderer.follow_layout()
                picture = _seconds_per_picture(renderers, self._poses[0], self._texts[0])
                left = seconds - (time.perf_counter() - begin)
                largest = max(1, rate // MIN_FRAMES_PER_SECOND)
                stride = _stride(steps, largest, left / picture)
                if stride is None and not is_required:
                    return 0
                stride = stride or largest
                if video.most_drawn is not None:
                    stride = max(stride, math.ceil(rate / video.most_drawn))
                poses, texts = self._poses[:steps:stride], self._texts[:steps:stride]
                with closing(_draw(renderers, poses, texts)) as frames:
                    save_video(path, frames, rate / stride, len(poses))
        except TimeoutError:
            return 0
        return len(poses)


def _stride(steps: int, largest: int, pictures: float) -> int | None:
    """Return how many steps to advance from one frame to the next, so that there are at most so many pictures.

    None if `largest` is not enough.
    """
    return next((stride for stride in range(1, largest + 1) if math.ceil(steps / stride) <= pictures), None)


def _seconds_per_picture(renderers: Sequence[Renderer], poses: Sequence[Pose], texts: Sequence[Caption]) -> float:
    """Return how long a picture of all tasks takes. The second of two is timed: OpenGL prepares for the first."""
    _picture(renderers, poses, texts)
    begin = time.perf_counter()
    _picture(renderers, poses, texts)
    return time.perf_counter() - begin


def _draw(
    renderers: Sequence[Renderer], poses: Sequence[Sequence[Pose]], texts: Sequence[Sequence[Caption]]
) -> Generator[Image, None, None]:
    """Draw one frame after another."""
    with RenderProgress("drawing the video", len(poses)) as progress:
        for step, captions in zip(poses, texts, strict=True):
            yield _picture(renderers, step, captions)
            progress.advance()


def _picture(renderers: Sequence[Renderer], poses: Sequence[Pose], texts: Sequence[Caption]) -> Image:
    """Draw all tasks at one step, side by side."""
    worlds = zip(renderers, poses, texts, strict=True)
    return tile([add_caption(renderer.draw(pose), text) for renderer, pose, text in worlds])
