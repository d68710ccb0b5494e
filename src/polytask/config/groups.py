"""The tables from which settings such as `algo=ppo` or `net=moore` are chosen: name -> config class.

Plug-ins add entries to them (`polytask.plugins.register`).
"""

from __future__ import annotations

from typing import Any

from polytask.algos import ALGOS
from polytask.grads import GRADS
from polytask.nets import NETS
from polytask.sim.config import SIMS

# Name -> (config class, what is built from it).
TABLES: dict[str, dict[str, Any]] = {"algo": ALGOS, "net": NETS, "grads": GRADS}
GROUPS: dict[str, dict[str, type[Any]]] = {
    "sim": dict(SIMS),
    **{kind: {name: config for name, (config, _) in table.items()} for kind, table in TABLES.items()},
}
