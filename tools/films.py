"""Film the pretrained MT50 policy: the README's picture, and a film of every task for docs/films.md.

Run `python tools/films.py`. One network plays one episode of each of the fifty tasks, with the goals of a fixed seed.
What it does not solve is filmed too: a green mark appears where, and when, a task succeeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

import numpy as np
import torch
from PIL import Image as Pictures
from PIL import ImageDraw

import polytask
from polytask.envs.captions import Caption, CaptionReader, Image, add_caption, draw_mark, font
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.render import Pose, Renderer, pose_of
from polytask.policies.pretrained import find_pretrained, read_card

DOCS = Path(__file__).parents[1] / "docs"
POLICY, SEED = "mt50", 0
STEPS, EVERY = 84, 3  # control steps that are filmed, and from one picture to the next; no task succeeds later
PAUSE = 2500  # milliseconds before a film starts again
SLOWER = 2  # times, than the robot is
DRAWN = (480, 360)  # pixels; drawn larger than shown, to avoid jagged edges
FILM, FILM_QUALITY = (240, 180), 55
COLUMNS, CELL, GRID_QUALITY = 10, (160, 120), 50
MIDDLE = (60, 45, 480, 360)  # the part of a picture that the grid shows: without the robot's base
LETTERS, LINE, MARGIN = 20, 21, 4  # pixels of the names in the grid
PAPER, INK = (24, 28, 34), (235, 238, 242)


@dataclass(frozen=True)
class Episode:
    """The filmed moments of a task."""

    poses: list[Pose]
    captions: list[Caption]


@torch.no_grad()
def play(env: MultiTaskEnv) -> dict[str, Episode]:
    """Play one episode in each world; return what is filmed of each task."""
    policy = polytask.load_policy(POLICY).for_tasks(env.spec.tasks)
    reader = CaptionReader(env)
    episodes = {task: Episode([], []) for task in env.spec.tasks}
    for step in range(STEPS):
        for caption in reader.read():
            if step % EVERY == 0:
                episodes[caption.task].poses.append(pose_of(env, caption.task))
                episodes[caption.task].captions.append(caption)
        env.step(policy(env.obs, env.task))
    return episodes


def draw(env: MultiTaskEnv, task: str, poses: Sequence[Pose]) -> list[Image]:
    """Draw the poses of a task."""
    with closing(Renderer(env, task, *DRAWN)) as renderer:
        renderer.follow_layout()
        return [renderer.draw(pose) for pose in poses]


def shrink(image: Image, size: tuple[int, int], part: tuple[int, int, int, int] | None = None) -> Image:
    """Return a part of a picture, or all of it, in another size."""
    return np.asarray(Pictures.fromarray(image).resize(size, Pictures.Resampling.LANCZOS, part))


def cell(image: Image, caption: Caption) -> Image:
    """Return a picture of the grid: the world, and below it the task in up to two lines with the mark of success."""
    width, height = CELL
    picture = Pictures.new("RGB", (width, height + 2 * LINE + MARGIN), PAPER)
    picture.paste(Pictures.fromarray(shrink(image, (width - MARGIN, height), MIDDLE)))
    drawn = ImageDraw.Draw(picture)
    for number, line in enumerate(lines_of(caption.task)):
        drawn.text((MARGIN, height + number * LINE), line, INK, font(LETTERS))
    if caption.score >= 1.0:
        draw_mark(drawn, width - LETTERS - 2 * MARGIN, height + LINE, LETTERS)
    return np.asarray(picture)


def lines_of(task: str) -> list[str]:
    """Break a name that is too long at the hyphen that makes the longer of two lines shortest."""
    if font(LETTERS).getlength(task) <= CELL[0] - LETTERS - 4 * MARGIN:  # beside the mark
        return [task]
    breaks = [at for at, letter in enumerate(task, 1) if letter == "-"]
    middle = min(breaks, key=lambda at: max(at, len(task) - at))
    return [task[:middle], task[middle:]]


def tiled(cells: Sequence[Image]) -> Image:
    """Arrange the pictures of all tasks in rows."""
    rows = [np.concatenate(cells[start : start + COLUMNS], 1) for start in range(0, len(cells), COLUMNS)]
    return np.concatenate(rows)


def save(path: Path, images: Sequence[Image], quality: int, rate: float) -> None:
    """Write an animated WebP that waits at its end."""
    first, *others = [Pictures.fromarray(image) for image in images]
    times = [round(1000 / rate)] * len(others) + [PAUSE]
    first.save(path, save_all=True, append_images=others, duration=times, loop=0, quality=quality, method=6)


def page(solved: int) -> str:
    """Return docs/films.md, for films in which so many tasks are solved."""
    card = read_card(find_pretrained(POLICY))
    about = (
        "Written by `python tools/films.py`, not by hand. One network, the [pretrained policy](policies.md) of MT50, "
        f"plays the first {STEPS} control steps of one episode of each task, with the goals of seed {SEED}. The films "
        f"run at {1 / SLOWER:g} times the speed of the robot. The green ball is the goal, and the green mark appears "
        f"when the task succeeds. In these episodes the network solves {solved} of {len(card['tasks'])} tasks. The "
        f"number beside a name is its success in the {card['episodes']} episodes of its evaluation. The "
        "[gallery](gallery.md) describes the tasks."
    )
    lines = ["# Films of the fifty tasks", "", fill(about, 120), "", '<div class="films" markdown>', ""]
    for task, figures in card["tasks"].items():
        lines += [f"![{task}](films/{task}.webp)<br>{task} · {figures['success']:.2f}", ""]
    return "\n".join([*lines, "</div>", ""])


def main() -> None:
    """Play, draw and write all films and the page."""
    env = polytask.make(POLICY, num_envs=50, episode_length=150, stagger=False, seed=SEED, copy=False)
    episodes = play(env)
    rate = env.config.domain.control_rate / EVERY / SLOWER
    (DOCS / "films").mkdir(exist_ok=True)
    grid: list[list[Image]] = []
    for task, episode in episodes.items():
        images = draw(env, task, episode.poses)
        shown = list(zip(images, episode.captions, strict=True))
        film = [add_caption(shrink(image, FILM), caption) for image, caption in shown]
        save(DOCS / "films" / f"{task}.webp", film, FILM_QUALITY, rate)
        grid.append([cell(image, caption) for image, caption in shown])
        print(task, flush=True)
    env.close()
    save(DOCS / "images" / "mt50.webp", [tiled(cells) for cells in zip(*grid, strict=True)], GRID_QUALITY, rate)
    solved = sum(episode.captions[-1].score >= 1.0 for episode in episodes.values())
    (DOCS / "films.md").write_text(page(solved))


if __name__ == "__main__":
    main()
