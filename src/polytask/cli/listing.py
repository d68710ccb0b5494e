"""`polytask list`: print the tasks, suites, algorithms, networks, gradient methods, robots, presets or policies."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from polytask.config.groups import GROUPS
from polytask.config.presets import presets
from polytask.config.schema import ListConfig
from polytask.envs.make import resolve
from polytask.envs.options import EnvOptions
from polytask.envs.suites import SUITES
from polytask.envs.tasks import TASKS
from polytask.errors import UserError
from polytask.nets import parameter_table
from polytask.plugins.needs import ORIGINS
from polytask.policies.pretrained import pretrained, read_card
from polytask.result import Result, Table
from polytask.robots import ROBOTS
from polytask.settings import choices_of


def listing(config: ListConfig) -> Result:
    """Run `polytask list`."""
    if config.kind is None:
        raise UserError(f"name what to list: {', '.join(choices_of(ListConfig, 'kind'))}")
    if config.params and config.kind != "nets":
        raise UserError("params=true is valid only for 'polytask list nets'")
    if config.suite is not None and config.kind != "tasks" and not config.params:
        raise UserError(
            "suite= is valid only for 'polytask list tasks' and, with params=true, for 'polytask list nets'"
        )
    suite = config.suite or "mt10"
    rows = _parameters(suite) if config.params else _rows(config.kind)
    title = f"{config.kind} for {suite}" if config.params else config.kind
    if config.kind == "tasks" and config.suite is not None:
        order = SUITES[config.suite]
        rows = sorted((row for row in rows if row["name"] in order), key=lambda row: order.index(row["name"]))
        title = f"tasks of {config.suite}"
    columns = list(rows[0]) if rows else ["name"]
    shown = [[" ".join(value) if isinstance(value, list) else value for value in row.values()] for row in rows]
    return Result({config.kind: rows}, [Table(title, columns, shown)])


def _rows(kind: str) -> list[dict[str, Any]]:
    """Return a description of each entry of one table."""
    if kind == "tasks":
        members = {task: [suite for suite, tasks in SUITES.items() if task in tasks] for task in TASKS}
        return [
            {"name": name, "scene": task.scene, "suites": members[name], "about": task.summary}
            for name, task in TASKS.items()
        ]
    if kind == "suites":
        return [{"name": name, "tasks": len(tasks), "names": list(tasks)} for name, tasks in SUITES.items()]
    if kind == "policies":
        return [_policy(name, path) for name, path in pretrained().items()]
    if kind == "plugins":
        found: dict[str, list[str]] = {}
        for (what, name), origin in ORIGINS.items():
            found.setdefault(origin, []).append(f"{what} {name}")
        return [{"name": origin, "adds": ", ".join(entries)} for origin, entries in found.items()]
    if kind == "robots":
        return [{"name": name, "about": robot.about} for name, robot in ROBOTS.items()]
    if kind == "presets":
        known = {**presets(), **{f"mtopt run: {name}": about for name, about in presets("mtopt_preset").items()}}
        return [{"name": name, "about": about} for name, about in known.items()]
    group = {"algos": "algo", "nets": "net", "grads": "grads"}[kind]
    return [
        {
            "name": name,
            "about": _about(name, config),
            "settings": [each.name for each in fields(config) if each.name != "name"],
        }
        for name, config in GROUPS[group].items()
    ]


def _policy(name: str, path: Path) -> dict[str, Any]:
    """Return what the card of a pretrained policy says."""
    card = read_card(path)
    run, net = card["run"], card.get("net", {})
    return {
        "name": name,
        "tasks": len(card["tasks"]),
        "success": card["mean_success"],
        "algo": card.get("algo"),
        "net": net.get("name"),
        "frames": run.get("frames"),
        "megabytes": path.stat().st_size / 1e6,
    }


def _about(name: str, config: type[Any]) -> str:
    """Return the first paragraph of the docstring of an entry's module.

    If the module is named after another entry, use the docstring of the entry's class.
    """
    is_own_module = config.__module__.endswith(f".{name}")
    text = (sys.modules[config.__module__] if is_own_module else config).__doc__ or ""
    return text.split("\n\n")[0].replace("\n", " ").strip()


def _parameters(suite: str) -> list[dict[str, Any]]:
    """Return the parameter counts of the networks for the observations and actions of a suite."""
    tasks, config = SUITES[suite], resolve(EnvOptions(suite=suite))
    sizes = (config.sizes.obs_dim, config.domain.action_dim)
    return [dict(row) for row in parameter_table(*sizes, len(tasks), tasks)]
