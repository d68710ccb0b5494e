"""Write the task gallery: a picture of every task shortly before its scripted expert succeeds, and a table.

The table has the ranges, the success rule and the measured figures of every task. The figures come from one episode
per goal, each in its own world, on the CPU.
"""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polytask.config.schema import GalleryConfig
from polytask.envs.make import make
from polytask.envs.manipulation.task import Task
from polytask.envs.manipulation.tasks import TASKS
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.render import Pose, Renderer, pose_of
from polytask.envs.render_progress import RenderProgress
from polytask.envs.scripted import ScriptedPolicy
from polytask.envs.suites import SUITES
from polytask.errors import UserError, require_known
from polytask.files import can_write, make_folder, write_atomically, write_text
from polytask.result import Result, Table
from polytask.runs.provenance import provenance

BEFORE = 5  # control steps between the picture and the first success
CANDIDATES = 5  # worlds per task from which the most typical one is drawn
OVERSAMPLING = 2  # pictures are drawn this much larger and scaled down, to avoid jagged edges
QUALITY = 85  # of the JPEG files


@dataclass(frozen=True)
class Figures:
    """The figures of a task on the page."""

    success: float  # share of the goals that the expert reached at any step
    first_step: float | None  # mean step of the first success, over the reached goals
    pose: Pose  # the moment to draw


def gallery(config: GalleryConfig) -> Result:
    """Run `polytask gallery`."""
    folder, page = _check(config)
    names = list(SUITES["mt50"] if config.tasks is None else config.tasks)
    env = make(
        tasks=names,
        num_envs=config.episodes * len(names),
        robot=config.robot,
        episode_length=config.episode_length,
        stagger=False,
        seed=config.seed,
        threads=config.threads,
        copy=False,
    )
    Renderer(env, names[0], 16, 16).close()  # without OpenGL, fail here, before the slow part
    make_folder(folder)
    for place in (folder, page.parent):  # where nothing can be written, fail here too
        with can_write(place), TemporaryFile(dir=place):
            pass
    figures = measure(env)
    with RenderProgress("drawing the pictures", len(figures)) as progress:
        for name, one in figures.items():
            _draw(env, name, one.pose, folder / f"{name}.jpg", (config.width, config.height))
            progress.advance()
    env.close()
    text = write_page(figures, config, folder.name)
    write_text(page, text)
    tasks = {name: {"success": one.success, "first_success_step": one.first_step} for name, one in figures.items()}
    mean = float(np.mean([one.success for one in figures.values()]))
    payload = {"page": str(page), "mean_success": mean, "tasks": tasks, **provenance(env.device)}
    rows = [(name, one.success, one.first_step) for name, one in figures.items()]
    shown = Table("scripted experts", ("task", "success", "first success at step"), [*rows, ("mean", mean, None)])
    return Result(payload, [shown], [f"page: {page}", f"pictures: {folder}"])


def _check(config: GalleryConfig) -> tuple[Path, Path]:
    """Check the config; return the folder of the pictures and the path of the page."""
    if find_spec("PIL") is None:
        raise UserError("the pictures need an extra: pip install 'polytask[video]'")
    if config.tasks == []:
        raise UserError("tasks=[] names no task")
    for name in config.tasks or ():
        require_known("task", name, SUITES["mt50"])
    folder = Path(config.output).expanduser()
    if not folder.name:
        raise UserError(f"output={config.output} has no name for the page; name a folder, such as docs/gallery")
    page = folder.with_name(f"{folder.name}.md")
    if page.exists() and not page.is_file():
        raise UserError(f"cannot write the page '{page}': something else has this name")
    return folder, page


@torch.no_grad()
def measure(env: MultiTaskEnv) -> dict[str, Figures]:
    """Run one scripted episode in every world. Return the success and, per task, a pose shortly before a success."""
    names, worlds = env.spec.tasks, env.spec.envs_per_task[0]
    policy = ScriptedPolicy(env)
    first = torch.full((env.spec.num_envs,), -1)
    candidates = list(itertools.product(range(len(names)), range(min(CANDIDATES, worlds))))
    trails: dict[tuple[int, int], deque[Pose]] = {key: deque(maxlen=BEFORE) for key in candidates}
    with RenderProgress("playing the experts", env.spec.episode_length) as progress:
        for step in range(env.spec.episode_length):
            for task, world in candidates:
                if first[task * worlds + world] < 0:
                    trails[task, world].append(pose_of(env, names[task], world))
            success = env.step(policy(env.obs, env.task)).success
            first = torch.where((first < 0) & success, step, first)
            progress.advance()
    figures = {}
    for index, (name, steps) in enumerate(zip(names, first.reshape(len(names), worlds), strict=True)):
        reached = steps[steps >= 0].double()
        mean = float(reached.mean()) if len(reached) else None
        pose = trails[index, _typical(steps[:CANDIDATES])][0]
        figures[name] = Figures(len(reached) / worlds, mean, pose)
    return figures


def _typical(first: Tensor) -> int:
    """Return the world with the median step of the first success, or the first world if none succeeds."""
    order = [int(world) for world in first.argsort(stable=True) if first[world] >= 0]
    return order[len(order) // 2] if order else 0


def _draw(env: MultiTaskEnv, task: str, pose: Pose, path: Path, size: tuple[int, int]) -> None:
    """Write the picture of one task."""
    from PIL import Image

    renderer = Renderer(env, task, OVERSAMPLING * size[0], OVERSAMPLING * size[1])
    image: NDArray[np.uint8] = renderer.draw(pose)
    renderer.close()
    small = Image.fromarray(image).resize(size, Image.Resampling.LANCZOS)
    write_atomically(path, lambda temporary: small.save(temporary, "JPEG", quality=QUALITY, optimize=True))


def write_page(figures: dict[str, Figures], config: GalleryConfig, folder: str) -> str:
    """Return the page in Markdown."""
    mean, robot = float(np.mean([one.success for one in figures.values()])), config.robot or "sawyer"
    lines = [
        "# Task gallery",
        "",
        f"Written by `polytask gallery`, not by hand: robot {robot}, CPU, {config.episodes} goals per task,",
        f"{config.episode_length} control steps, seed {config.seed}. *Expert* is the share of goals that the task's",
        "scripted expert reaches at any step. *First* is the mean step of its first success.",
        f"Mean over the {len(figures)} tasks: **{mean:.4f}**.",
        "",
        "A picture shows the expert shortly before success. The green ball is the goal. Lengths are in metres, angles",
        "in radians. The robot is at the origin and faces along y; z points up and is zero at the table top.",
        "",
        "| | task | random vector, and what it places | success | expert | first |",
        "|---|---|---|---|---|---|",
    ]
    for name, one in figures.items():
        task = TASKS[name]
        suites = ", ".join(suite for suite, tasks in SUITES.items() if name in tasks)
        about = f"**{name}** (version {task.version})<br>{task.summary}<br>Scene `{task.scene}`. In {suites}."
        first = "-" if one.first_step is None else f"{one.first_step:.0f}"
        picture = f"![{name}]({folder}/{name}.jpg)"
        rule = task.success_rule[0].upper() + task.success_rule[1:]
        lines.append(f"| {picture} | {about} | {describe(task)} | {rule} | {one.success:.2f} | {first} |")
    return "\n".join(lines) + "\n"


def describe(task: Task) -> str:
    """Describe the ranges of a task's random vector and of the positions that it sets."""
    ranges, separation = list(zip(task.start.low, task.start.high, strict=True)), task.start.separation
    lines = [f"`[{', '.join(_span(low, high) for low, high in ranges)}]`"]
    if separation is not None:
        (a0, a1), (b0, b1) = separation.a, separation.b
        lines.append(f"with `[{a0}:{a1}]` and `[{b0}:{b1}]` at least {_number(separation.distance)} apart")
    # A placement is linear in each entry of the vector, so its extremes are at the corners of the range.
    placement = task.start.place(torch.tensor(list(itertools.product(*ranges))))  # of the 2^R corners
    for name, value in {"goal": placement.target, **placement.fixtures, **placement.joints}.items():
        rows = value.reshape(len(value), -1)
        spans = [_span(low, high) for low, high in zip(rows.amin(0).tolist(), rows.amax(0).tolist(), strict=True)]
        shown = [f"{axis} {span}" for axis, span in zip("xyz", spans, strict=True)] if len(spans) == 3 else spans
        lines.append(f"{name}: {', '.join(shown)}")
    return "<br>".join(lines)


def _span(low: float, high: float) -> str:
    """Format a range, or one number if both ends are equal."""
    return _number(low) if _number(low) == _number(high) else f"{_number(low)} to {_number(high)}"


def _number(value: float) -> str:
    """Format a length to a tenth of a millimetre, without trailing zeros."""
    text = f"{value:.4f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text
