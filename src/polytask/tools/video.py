"""`polytask record`: film a policy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from polytask.config.schema import RecordConfig
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
    env = build_env(config, num_envs=len(config.task_names))
    if goals := training_goals(config):
        set_goals(env, goals)
    try:
        count = record_video(env, build_policy(config, env), path, video)
    finally:
        env.close()
    payload = {"output": str(path), "tasks": list(env.spec.tasks), "frames": count}
    return Result(payload, lines=[f"video: {path} ({count} frames)"])
