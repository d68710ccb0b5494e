"""Film pretrained policies: films of every task of MT50 and every terrain of parkour, and the README's picture.

Run `python tools/films.py`, or `python tools/films.py parkour-hard` for one of the series. One network plays one
episode of each task, from the starts of a fixed seed. What it does not solve is filmed too: a green mark appears where,
and when, a task succeeds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import torch
from PIL import Image as Pictures
from PIL import ImageDraw

import polytask
from polytask.envs.captions import Caption, CaptionReader, Image, add_caption, draw_mark, font
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.render import Pose, Renderer, pose_of
from polytask.envs.suites import SUITES
from polytask.policies.pretrained import find_pretrained, read_card

DOCS = Path(__file__).parents[1] / "docs"
RESULTS = DOCS.parent / "benchmarks" / "results"
SEED = 0
PAUSE = 2500  # milliseconds before a film starts again
DRAWN = (480, 360)  # pixels; drawn larger than shown, to avoid jagged edges
COLUMNS, CELL, GRID_QUALITY = 10, (160, 120), 50
MIDDLE = (60, 45, 480, 360)  # the part of a picture that the grid shows: without the robot's base
LETTERS, LINE, MARGIN = 20, 21, 4  # pixels of the names in the grid
PAPER, INK = (24, 28, 34), (235, 238, 242)


@dataclass(frozen=True)
class Series:
    """Films of one pretrained policy."""

    suite: str  # of the policy
    steps: int  # control steps of an episode that are filmed at most
    every: int  # control steps from one picture to the next
    speed: float  # of a film, in times the speed of the robot
    page: str
    folder: str
    title: str
    about: str  # with `{solved}`, `{tasks}` and `{episodes}`
    worlds: dict[str, Any] = field(default_factory=dict)  # settings of the worlds
    without: tuple[str, ...] = ()  # tasks of the policy that are not filmed
    size: tuple[int, int] = (240, 180)  # of a film, in pixels
    quality: int = 55
    figures: str | None = None  # a raw file with the progress of every terrain on every level; without, the card's

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks that are filmed."""
        return tuple(task for task in SUITES[self.suite] if task not in self.without)


MT50 = Series(
    suite="mt50",
    steps=84,  # no task succeeds later
    every=3,
    speed=0.5,
    page="films.md",
    folder="films",
    title="Films of the fifty tasks",
    about="One network, the [pretrained policy](policies.md) of MT50, plays the first 84 control steps of one episode "
    "of each task, with the goals of seed 0. The films run at half the speed of the robot. The green ball is the goal, "
    "and the green mark appears when the task succeeds. In these episodes the network solves {solved} of {tasks} "
    "tasks. The number beside a name is its success in the {episodes} episodes of its evaluation. The "
    "[gallery](gallery.md) describes the tasks. There are [films of the terrains](terrain_films.md), too.",
    worlds={"episode_length": 150},
)
PARKOUR = Series(
    suite="parkour-hard",
    steps=1200,
    every=15,
    speed=3.0,
    page="terrain_films.md",
    folder="terrain_films",
    title="Films of the terrains",
    about="One network, the [pretrained policy](policies.md) of parkour-hard, plays one episode on each terrain, on "
    "level 4 of 0 to 9. The films run at three times the speed of the robot, and end with the episode, after a fall "
    "too, or after 24 seconds. The number in a film is the share of the waypoints that the robot has reached; at all "
    "of them a green mark appears. In these episodes it reaches all of them on {solved} of {tasks}. The number beside "
    "a name is the share in the {episodes} episodes of its evaluation, which are spread over all levels. "
    "[Parkour](parkour.md) describes the terrains. There are [films of level 9](terrain_films_hardest.md), too.",
    worlds={"level": 4},
)
HARDEST = Series(
    suite="parkour-hard",
    steps=1200,
    every=15,
    speed=3.0,
    page="terrain_films_hardest.md",
    folder="terrain_films_hardest",
    title="Films of the hardest level",
    about="One network, the [pretrained policy](policies.md) of parkour-hard, plays one episode on each of the twenty "
    "terrains, on level 9 of 0 to 9. The green balls are the waypoints that are still to be reached, the bright one is "
    "the next. The films run at three times the speed of the robot, and end with the episode, after a fall too, or "
    "after 24 seconds. The number in a film is the share of the waypoints that the robot has reached; at all of them a "
    "green mark appears. In these episodes it reaches all of them on {solved} of {tasks}. The number beside a name is "
    "the share on this level in {episodes} episodes "
    "([raw](../benchmarks/results/h200_parkour_hard_tuned.json)). There are [films of level 4](terrain_films.md), too.",
    worlds={"level": 9},
    without=("flat",),
    size=(320, 240),
    quality=45,
    figures="h200_parkour_hard_tuned",
)
ALL = {"mt50": MT50, "parkour-hard": PARKOUR, "parkour-hardest": HARDEST}


@dataclass(frozen=True)
class Episode:
    """The filmed moments of a task."""

    poses: list[Pose]
    captions: list[Caption]


@torch.no_grad()
def play(env: MultiTaskEnv, series: Series) -> dict[str, Episode]:
    """Play one episode in each world; return what is filmed of each task."""
    policy = polytask.load_policy(series.suite).for_tasks(env.spec.tasks)
    reader = CaptionReader(env, first_only=True)
    episodes = {task: Episode([], []) for task in env.spec.tasks}
    for step in range(series.steps):
        for caption in reader.read():
            task, episode = caption.task, episodes[caption.task]
            if caption.is_over:
                if caption.step == step:  # it ended with the last step
                    episode.poses.append(episode.poses[-1])
                    episode.captions.append(caption)
            elif step % series.every == 0:
                episode.poses.append(pose_of(env, task))
                episode.captions.append(caption)
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


def page(series: Series, solved: int) -> str:
    """Return the page of the films, in which so many tasks are solved."""
    figures, episodes = figures_of(series)
    about = series.about.format(solved=solved, tasks=len(figures), episodes=episodes)
    text = fill(f"Written by `python tools/films.py`, not by hand. {about}", 120)
    lines = [f"# {series.title}", "", text, "", '<div class="films" markdown>', ""]
    for task, success in figures.items():
        lines += [f"![{task}]({series.folder}/{task}.webp)<br>{task} · {rounded(success)}", ""]
    return "\n".join([*lines, "</div>", ""])


def rounded(share: float) -> str:
    """Write a share with two digits, halves rounded up as in docs/results.md; Python rounds 0.125 down, 0.375 up."""
    return str(Decimal(str(share)).quantize(Decimal("0.01"), ROUND_HALF_UP))


def figures_of(series: Series) -> tuple[dict[str, float], int]:
    """Return the success of every task of a series, and the number of episodes that it is a mean of."""
    if series.figures is None:
        card = read_card(find_pretrained(series.suite))
        return {task: card["tasks"][task]["success"] for task in series.tasks}, card["episodes"]
    found = json.loads((RESULTS / f"{series.figures}.json").read_text())["evaluation"]
    level, levels = series.worlds["level"], found["parkour"]["task_levels"]
    return {task: levels[task][level] for task in series.tasks}, found["episodes"] // len(levels["flat"])


def main(chosen: Sequence[str]) -> None:
    """Play, draw and write all films and pages."""
    for name in chosen or ALL:
        film(ALL[name])


def film(series: Series) -> None:
    """Write the films and the page of a series; of MT50 also the README's picture."""
    tasks = list(series.tasks)
    options = {"num_envs": len(tasks), "stagger": False, "seed": SEED, "copy": False, **series.worlds}
    env = polytask.make(tasks=tasks, **options)
    episodes = play(env, series)
    rate = env.config.domain.control_rate / series.every * series.speed
    (DOCS / series.folder).mkdir(exist_ok=True)
    grid: list[list[Image]] = []
    for task, episode in episodes.items():
        images = draw(env, task, episode.poses)
        shown = list(zip(images, episode.captions, strict=True))
        save(
            DOCS / series.folder / f"{task}.webp",
            [add_caption(shrink(image, series.size), caption) for image, caption in shown],
            series.quality,
            rate,
        )
        grid.append([cell(image, caption) for image, caption in shown])
        print(task, flush=True)
    env.close()
    if series is MT50:
        save(DOCS / "images" / "mt50.webp", [tiled(cells) for cells in zip(*grid, strict=True)], GRID_QUALITY, rate)
    solved = sum(episode.captions[-1].score >= 1.0 for episode in episodes.values())
    (DOCS / series.page).write_text(page(series, solved))


if __name__ == "__main__":
    main(sys.argv[1:])
