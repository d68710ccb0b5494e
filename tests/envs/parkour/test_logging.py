"""What parkour adds to a run's log: its metrics, and the levels of a curriculum's worlds."""

from __future__ import annotations

import pytest
import torch

import polytask
from polytask.runs.logger import EpisodeWindow, read_metrics


def test_log_has_progress_falls_and_levels_by_task() -> None:
    env = polytask.make(tasks=["beam", "dome"], levels="curriculum", num_envs=8, episode_length=3, threads=1)
    window = EpisodeWindow(env.spec.tasks, 100, env.config.domain.metrics)
    for _ in range(6):
        env.step(torch.zeros(8, 12))
    record = read_metrics(env.world_metrics(), env.pop_metrics(), window)
    for name in ("success", "progress", "falls", "time_to_goal", "level"):
        assert record[f"{name}/beam"] is not None
    assert record["progress"] == record["success"] == 0.0
    assert record["falls"] == 0.0
    assert record["time_to_goal"] == pytest.approx(3 * 0.02)  # no goal reached: the whole episode
    assert sum(int(record[f"worlds_on_level/{level}/dome"] or 0) for level in range(10)) == 4
    again = EpisodeWindow(env.spec.tasks, 100, env.config.domain.metrics)
    again.load_state_dict(window.state_dict())
    assert again.row() == window.row()
