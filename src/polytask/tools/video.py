"""`polytask record`: film a policy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from polytask.config.watching import RecordConfig
from polytask.envs.parkour.terrain import NUM_LEVELS
from polytask.envs.video import VideoFormat, check_suffix, record_video
from polytask.errors import UserError
from polytask.result import Result
from polytask.runs.evaluate import set_goals, training_goals
from polytask.runs.setup import build_env, build_policy, check_source


def record(config: RecordConfig) -> Result:
    """Run `polytask record`."""
    check_source(config)
    video = VideoFormat(config.width, config.height, config.frames_per_second)
    path = Path(config.output).expanduser()
    if not path.parent.is_dir():
        raise UserError(f"there is no folder '{path.parent}' to write the video to")
    if path.exists() and not path.is_file():  # a device would be replaced by the video
        kind = "a folder" if path.is_dir() else "not a regular file"
        raise UserError(f"output={config.output} is {kind}; name a file, such as polytask.mp4")
    check_suffix(path)
    if config.task is not None:
        config = replace(config, tasks=[config.task])
    if config.chosen_levels == "curriculum":  # that is for training
        config = replace(config, levels="hard")
    if not config.all_levels:
        count, tasks = _film(config, path, video)
        return Result({"output": str(path), "tasks": tasks, "frames": count}, lines=[_line(path, count)])
    paths = [path.with_name(f"{path.stem}-level-{level}{path.suffix}") for level in range(NUM_LEVELS)]
    films = [_film(replace(config, level=level), one, video) for level, one in enumerate(paths)]
    payload = {"outputs": [str(one) for one in paths], "tasks": films[0][1], "frames": sum(count for count, _ in films)}
    return Result(payload, lines=[_line(one, count) for one, (count, _) in zip(paths, films, strict=True)])


def _film(config: RecordConfig, path: Path, video: VideoFormat) -> tuple[int, list[str]]:
    """Play and film one episode of each task; return the number of frames and the tasks."""
    env = build_env(config, num_envs=len(config.task_names))
    if goals := training_goals(config):
        set_goals(env, goals)
    try:
        count = record_video(env, build_policy(config, env), path, video)
    finally:
        env.close()
    return count, list(env.spec.tasks)


def _line(path: Path, frames: int) -> str:
    return f"video: {path} ({frames} frames)"
