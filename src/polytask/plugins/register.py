"""Add networks, gradient methods, algorithms and suites from outside the package, without loading the simulator.

The functions are called with a class, or they are decorators of it: `@register_net(GatedConfig)`. `worlds.py` has those
for tasks, terrains and robots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from polytask.envs.suites import LEVELS, SUITE_LEVELS, SUITES
from polytask.errors import UserError, require_known
from polytask.plugins.table import add_entry, origin_of_call
from polytask.settings import default_of

Built = TypeVar("Built", bound=Callable[..., Any])


def register_suite(name: str, tasks: Sequence[str], levels: str | None = None) -> None:
    """Add a suite.

    Args:
        name: Its name.
        tasks: Names of its tasks, which may be registered later.
        levels: Terrain of a parkour suite: flat, easy, hard or curriculum.
    """
    if isinstance(tasks, str) or not tasks or len(set(tasks)) != len(tasks):
        raise UserError(f"suite '{name}' needs a list of different tasks")
    if levels is not None:
        require_known("levels", levels, LEVELS)
    add_entry("suite", name, tuple(tasks), SUITES)
    if levels is not None:
        SUITE_LEVELS[name] = levels


def register_net(config: type[Any], net: Any = None) -> Any:
    """Add a network.

    Args:
        config: The dataclass of its settings; the default of its field `name` is the name of the network.
        net: Builds the network from (config, NetShape, generator). Without it, the result is a decorator for it.
    """
    return _register("net", config, net)


def register_grad(config: type[Any], method: Any = None) -> Any:
    """Add a gradient method: the dataclass of its settings, and its class; without it, the result is a decorator."""
    return _register("grads", config, method)


def register_algo(config: type[Any], algo: Any = None) -> Any:
    """Add an algorithm: the dataclass of its settings, and its class; without it, the result is a decorator.

    If the dataclass has a method `actor_layout`, its policies can be loaded and exported.
    """
    return _register("algo", config, algo)


def _register(kind: str, config: type[Any], built: Any) -> Any:
    """Add a config and what is built from it."""
    name, origin = _name_of(kind, config), origin_of_call()

    def add(built: Built) -> Built:
        from polytask.config.groups import GROUPS, TABLES  # imports torch

        add_entry(kind, name, (config, built), TABLES[kind], origin)
        GROUPS[kind][name] = config
        return built

    return add if built is None else add(built)


def _name_of(kind: str, config: type[Any]) -> str:
    """Return the name that a config class gives to its entry."""
    if not isinstance(config, type) or not is_dataclass(config):
        raise UserError(f"the settings of {kind} must be a dataclass, not {config!r}")
    found = next((default_of(each) for each in fields(config) if each.name == "name"), None)
    if not isinstance(found, str):
        raise UserError(f"{config.__name__} needs a field `name: str` whose default is the name of the entry")
    return found
