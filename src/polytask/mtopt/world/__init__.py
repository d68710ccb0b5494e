"""The simulated world of MT-Opt: bins, objects, a plate and a Panda, in batches on CPU or GPU."""

from __future__ import annotations

from polytask.mtopt.config.world import ScriptConfig, WorldConfig
from polytask.mtopt.world.bin_world import BinWorld, Observation
from polytask.mtopt.world.episodes import ALL_TASKS, EpisodeBatch, Policy, run_episodes, task_indices
from polytask.mtopt.world.scripted import ScriptedPick, ScriptedPlace

__all__ = [
    "ALL_TASKS",
    "BinWorld",
    "EpisodeBatch",
    "Observation",
    "Policy",
    "ScriptConfig",
    "ScriptedPick",
    "ScriptedPlace",
    "WorldConfig",
    "run_episodes",
    "task_indices",
]
