"""`polytask list`: what the tables hold."""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import Any

from polytask.algos import ALGOS
from polytask.cli.console import Result, table
from polytask.config.compose import presets
from polytask.config.schema import CHOICES, ListConfig
from polytask.envs.make import domain_of
from polytask.envs.tasks import SUITES, TASKS
from polytask.errors import UserError
from polytask.grads import GRADS
from polytask.nets import NETS, parameter_table
from polytask.robots import ROBOTS


def listing(config: ListConfig) -> Result:
    """Run `polytask list`."""
    if config.kind is None:
        raise UserError(f"say what to list: {', '.join(CHOICES['kind'])}")
    if config.params and config.kind != "nets":
        raise UserError("params=true goes with 'polytask list nets'")
    rows = _parameters(config.suite.name) if config.params else _rows(config.kind)
    columns = list(rows[0]) if rows else ["name"]
    title = f"{config.kind} for {config.suite.name}" if config.params else config.kind
    return Result({config.kind: rows}, [table(title, columns, [list(row.values()) for row in rows])])


def _rows(kind: str) -> list[dict[str, Any]]:
    """Describe the entries of one table."""
    if kind == "tasks":
        members = {task: [suite for suite, tasks in SUITES.items() if task in tasks] for task in TASKS}
        return [
            {"name": name, "scene": task.scene, "suites": " ".join(members[name]), "about": task.summary}
            for name, task in TASKS.items()
        ]
    if kind == "suites":
        return [{"name": name, "tasks": len(tasks), "names": " ".join(tasks)} for name, tasks in SUITES.items()]
    if kind == "robots":
        return [{"name": name, "about": _about(robot)} for name, robot in ROBOTS.items()]
    if kind == "presets":
        known = {**presets(), **{f"mtopt: preset={name}": about for name, about in presets("preset").items()}}
        return [{"name": name, "about": about} for name, about in known.items()]
    configs = {"algos": _configs(ALGOS), "nets": _configs(NETS), "grads": _configs(GRADS)}[kind]
    return [
        {"name": name, "about": _about(config), "settings": " ".join(each.name for each in fields(config))}
        for name, config in configs.items()
    ]


def _configs(entries: dict[str, tuple[type[Any], Any]]) -> dict[str, type[Any]]:
    """Keep the config class of each entry of a table."""
    return {name: config for name, (config, _) in entries.items()}


def _about(part: Any) -> str:
    """Take the first sentence of the module that defines a part."""
    text = sys.modules[part.__module__].__doc__ or ""
    return text.split("\n\n")[0].replace("\n", " ").strip()


def _parameters(suite: str) -> list[dict[str, Any]]:
    """Size the networks for a suite's observations and actions."""
    tasks = SUITES[suite]
    domain = domain_of([TASKS[name] for name in tasks])
    return [dict(row) for row in parameter_table(domain.obs_dim, domain.action_dim, len(tasks), tasks)]
