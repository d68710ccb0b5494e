"""The tables from which settings such as `algo=ppo` or `net=moore` are chosen: name -> config class."""

from __future__ import annotations

from typing import Any

from polytask.algos import ALGOS
from polytask.grads import GRADS
from polytask.nets import NETS
from polytask.sim.config import SIMS

GROUPS: dict[str, dict[str, type[Any]]] = {
    "sim": dict(SIMS),
    "algo": {name: config for name, (config, _) in ALGOS.items()},
    "net": {name: config for name, (config, _) in NETS.items()},
    "grads": {name: config for name, (config, _) in GRADS.items()},
}
