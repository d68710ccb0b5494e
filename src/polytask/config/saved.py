"""Settings that an earlier version saved, in the form that this version reads."""

from __future__ import annotations

from typing import Any


def upgrade(saved: dict[str, Any]) -> dict[str, Any]:
    """Convert the settings of a run.

    Version 0.1 saved a suite and a robot as tables with a name. It also saved manipulation's default robot and goals
    for parkour; they are dropped. Version 0.2 began to save whether SAC's SimbaV2 has two heads; before, it had one.
    """
    tables = [name for name in ("suite", "robot") if isinstance(saved.get(name), dict)]
    named: dict[str, Any] = {name: saved[name]["name"] for name in tables}
    if "robot" in named:
        defaults = {"robot": "sawyer", "goals": "random"}
        named |= {name: None for name, value in defaults.items() if {**saved, **named}.get(name) == value}
    net, algo = saved.get("net"), saved.get("algo")
    if isinstance(net, dict) and isinstance(algo, dict) and (algo.get("name"), net.get("name")) == ("sac", "simba_v2"):
        named["net"] = {"two_heads": False, **net}
    return {**saved, **named}
