"""Write on the picture of a world what it shows: the task, the level, the step, and whether the task has succeeded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.render import places_of

Image = NDArray[np.uint8]  # (H, W, 3)

MIN_HEIGHT = 40  # pixels; on a smaller picture there is no room for letters
_LETTERS = 18  # heights of a line in a picture
_SHADE = 0.35  # brightness of the strip behind the letters
_WHITE, _GREEN = (255, 255, 255), (60, 200, 90)


@dataclass(frozen=True)
class Caption:
    """What is written on a picture."""

    task: str
    step: int  # of the episode
    score: float  # largest share of the task that was done so far, 0 to 1
    note: str = ""  # such as the level
    is_over: bool = False  # the episode has ended; this is what its last step reached

    @property
    def name(self) -> str:
        """The task with the note."""
        return f"{self.task}, {self.note}" if self.note else self.task


class CaptionReader:
    """Follows the first world of every task of an environment, or all worlds."""

    def __init__(self, env: MultiTaskEnv, *, all_worlds: bool = False, first_only: bool = False) -> None:
        """Prepare to follow the worlds from the start of their episodes.

        Args:
            env: The worlds.
            all_worlds: Follow all worlds.
            first_only: When an episode has ended, return its last caption from then on, not those of the next one.
        """
        self._env, self._first_only = env, first_only
        counts = torch.tensor(env.spec.envs_per_task)
        worlds = torch.arange(env.num_envs) if all_worlds else counts.cumsum(0) - counts
        self._tasks = [env.spec.tasks[number] for number in env.task.cpu()[worlds].tolist()]
        self._worlds = worlds.to(env.device)
        self._best = torch.zeros(len(worlds))
        places = places_of(env)
        self._places = [places[world] for world in worlds.tolist()]
        self._last: list[Caption] = []

    def read(self) -> list[Caption]:
        """Return the captions of the current state. Call it before every step."""
        env = self._env
        step, score = env.episode_step[self._worlds].cpu(), env.score[self._worlds].cpu()
        # At the start of an episode, the score still is that of the last one.
        self._best = torch.where(step == 0, 0.0, torch.maximum(self._best, score))
        values = zip(self._tasks, step.tolist(), self._best.tolist(), self._notes(step), strict=True)
        found = [Caption(task, int(count), best, note) for task, count, best, note in values]
        if self._first_only and self._last:
            found = [_stay(*three) for three in zip(self._last, found, score.tolist(), strict=True)]
        self._last = found
        return found

    def _notes(self, step: Tensor) -> list[str]:
        """Return the notes of all worlds; only a new episode has a new one."""
        known: Sequence[str | None] = [caption.note for caption in self._last] or [None] * len(self._places)
        return [
            place.group.note(place.row) if note is None or count == 0 else note
            for place, note, count in zip(self._places, known, step.tolist(), strict=True)
        ]


def _stay(last: Caption, now: Caption, score: float) -> Caption:
    """Return the last caption of an episode if it has ended, else that of now.

    Args:
        last: The caption before the last step.
        now: The caption after it.
        score: The score of that step, also if a new episode has begun.
    """
    if last.is_over:
        return last
    if now.step > last.step:
        return now
    return replace(last, step=last.step + 1, score=max(last.score, score), is_over=True)


def add_caption(image: Image, caption: Caption) -> Image:
    """Return a copy of a picture with a strip at the top: task, level, step, and a mark if the task has succeeded.

    Tasks that can be done in part, as in parkour, show the share in percent.
    """
    from PIL import Image as Pictures
    from PIL import ImageDraw

    height, width, _ = image.shape
    if height < MIN_HEIGHT:
        return image
    size = max(10, height // _LETTERS)
    strip, margin = round(1.6 * size), size // 3
    shaded = image.copy()
    shaded[:strip] = (shaded[:strip] * _SHADE).astype(np.uint8)
    picture = Pictures.fromarray(shaded)
    draw, letters, middle = ImageDraw.Draw(picture), font(size), strip / 2
    right = float(width - margin)
    if caption.score >= 1.0:
        draw_mark(draw, right - size, middle, size)
        right -= size + margin
    elif caption.score > 0.0:
        text = f"{100 * caption.score:.0f} %"
        draw.text((right, middle), text, _GREEN, letters, anchor="rm")
        right -= draw.textlength(text, letters) + margin
    name = caption.name if draw.textlength(caption.name, letters) <= right - 2 * margin else caption.task
    draw.text((margin, middle), name, _WHITE, letters, anchor="lm")
    free = right - 2 * margin - draw.textlength(name, letters)
    for step in (f"step {caption.step}", str(caption.step)):  # the shorter one if there is little room
        if draw.textlength(step, letters) <= free:
            draw.text((right, middle), step, _WHITE, letters, anchor="rm")
            break
    return np.asarray(picture)


@cache
def font(size: int) -> Any:
    """Return Pillow's own font, so that pictures look the same on every machine."""
    from PIL import ImageFont

    return ImageFont.load_default(size)


def draw_mark(draw: Any, left: float, middle: float, size: int) -> None:
    """Draw a green disc with a tick, `size` pixels wide."""
    draw.ellipse((left, middle - size / 2, left + size, middle + size / 2), fill=_GREEN)
    tick = [(0.26, 0.02), (0.44, 0.20), (0.76, -0.20)]
    points = [(left + x * size, middle + y * size) for x, y in tick]
    draw.line(points, fill=_WHITE, width=max(1, size // 8), joint="curve")
