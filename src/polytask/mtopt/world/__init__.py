"""The simulated world of MT-Opt: bins, objects, a plate and a Panda, in batches on CPU or GPU."""

from polytask.mtopt.world.bin_world import BinWorld
from polytask.mtopt.world.episodes import EpisodeBatch, Policy, run_episodes, task_indices
from polytask.mtopt.world.scripted import ScriptedPick, ScriptedPlace

__all__ = [
    "BinWorld",
    "EpisodeBatch",
    "Policy",
    "ScriptedPick",
    "ScriptedPlace",
    "run_episodes",
    "task_indices",
]
