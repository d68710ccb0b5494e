"""Film a policy: one episode of every task side by side, written as an mp4."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from polytask.cli.console import Result
from polytask.config.schema import CommonConfig, RecordConfig
from polytask.envs.multi_task import MultiTaskEnv
from polytask.errors import UserError
from polytask.runs.checkpoint import write_atomically
from polytask.runs.setup import Policy, build_env, build_policy, check_source, task_names

Image = NDArray[np.uint8]  # (H, W, 3)


@dataclass(frozen=True)
class Film:
    """How a film looks."""

    width: int = 480  # pixels of one task
    height: int = 360
    frames_per_second: int = 40


def record(config: RecordConfig) -> Result:
    """Run `polytask record`."""
    check_source(config)
    film = Film(config.width, config.height, config.frames_per_second)
    path = Path(config.output).expanduser()
    if not path.parent.is_dir():
        raise UserError(f"there is no folder '{path.parent}' to write the video to")
    if config.task is not None:
        config = replace(config, tasks=[config.task])
    env = build_env(config, num_envs=len(task_names(config)))
    try:
        count = shoot(env, build_policy(config, env), path, film)
    finally:
        env.close()
    payload = {"output": str(path), "tasks": list(env.spec.tasks), "frames": count}
    return Result(payload, lines=[f"video: {path} ({count} frames)"])


def film_tasks(config: CommonConfig, policy: Policy, path: Path) -> str:
    """Film a policy on all tasks of a config, and return the line to tell the user; without a video it says why."""
    env = build_env(config, num_envs=len(task_names(config)))
    try:
        count = shoot(env, policy, path, Film(width=320, height=240))
    except UserError as error:
        return str(error)
    finally:
        env.close()
    return f"video: {path} ({count} frames)"


@torch.no_grad()
def shoot(env: MultiTaskEnv, policy: Policy, path: Path, film: Film) -> int:
    """Play one episode in the first world of each task, write the video and return its number of frames."""
    if find_spec("imageio_ffmpeg") is None:
        raise UserError("no video: it needs an extra, pip install 'polytask[video]'")
    frames = _frames(env, policy, film)
    first = next(frames)  # fails here, before any file exists, where there is no OpenGL
    count = 0

    def write(temporary: Path) -> None:
        nonlocal count
        from imageio_ffmpeg import write_frames

        size = (first.shape[1], first.shape[0])
        writer = write_frames(
            str(temporary),
            size,
            fps=film.frames_per_second,
            macro_block_size=2,
            output_params=["-f", "mp4"],
            ffmpeg_log_level="error",
        )
        writer.send(None)
        for image in (first, *frames):
            writer.send(image.tobytes())
            count += 1
        writer.close()

    write_atomically(path, write)
    return count


def _frames(env: MultiTaskEnv, policy: Policy, film: Film) -> Iterator[Image]:
    """Step the worlds through one episode and draw them after every step."""
    from polytask.envs.render import Renderer

    renderers = [Renderer(env, task, film.width, film.height) for task in env.spec.tasks]
    for _ in range(env.spec.episode_length - 1):  # the last step would already show the next episode
        yield tile([renderer.frame(0) for renderer in renderers])
        env.step(policy(env.obs, env.task))


def tile(images: list[Image]) -> Image:
    """Arrange images in a grid about as wide as high, or up to half as wide again if that leaves fewer black holes."""
    square = math.ceil(math.sqrt(len(images)))
    columns = min(range(square, 3 * square // 2 + 1), key=lambda count: -len(images) % count)
    rows = math.ceil(len(images) / columns)
    height, width, _ = images[0].shape
    grid = np.zeros((rows, height, columns, width, 3), dtype=np.uint8)
    for index, image in enumerate(images):
        grid[index // columns, :, index % columns] = image
    return grid.reshape(rows * height, columns * width, 3)
