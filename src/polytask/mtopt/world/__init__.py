"""The worlds of MT-Opt, in batches on CPU or GPU. `WorldSpec`s declare them, `make_world` builds one by its name."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from polytask.errors import UserError
from polytask.mtopt.config.world import WorldConfig
from polytask.mtopt.config.world_specs import world_spec
from polytask.mtopt.world.bin_world import BinWorld
from polytask.mtopt.world.episodes import EpisodeBatch, run_episodes, task_indices
from polytask.mtopt.world.protocol import Policy, World
from polytask.mtopt.world.scripted import ScriptedPick, ScriptedPlace

__all__ = [
    "BinWorld",
    "EpisodeBatch",
    "Policy",
    "ScriptedPick",
    "ScriptedPlace",
    "World",
    "make_world",
    "run_episodes",
    "task_indices",
]


def make_world(config: WorldConfig) -> World:
    """Build the configured world.

    Raises:
        UserError: If there is no such world, or it is not simulated.
    """
    build = world_spec(config.kind).build
    if build is None:
        raise UserError(f"world '{config.kind}' cannot be simulated: import its episodes (polytask mtopt import)")
    if isinstance(build, str):
        module, _, name = build.partition(":")
        build = getattr(import_module(module), name)
    return cast(World, build(config))
