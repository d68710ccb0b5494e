"""Learning algorithms: each is a config dataclass and a class that implements `types.Algo`.

To add one, write a module with a config and a class, and add one line to `ALGOS`.
"""

from __future__ import annotations

from typing import Any

from polytask.algos.fast_td3 import FastTD3, FastTD3Config
from polytask.algos.grpo import GRPO, GRPOConfig
from polytask.algos.ppo import PPO, PPOConfig
from polytask.algos.pqn import PQN, PQNConfig
from polytask.algos.sac import SAC, SACConfig
from polytask.algos.shared.context import AlgoContext
from polytask.errors import UserError
from polytask.settings import check_values
from polytask.types import Algo

__all__ = ["ALGOS", "AlgoContext", "build"]

ALGOS: dict[str, tuple[type[Any], type[Any]]] = {
    "ppo": (PPOConfig, PPO),
    "grpo": (GRPOConfig, GRPO),
    "pqn": (PQNConfig, PQN),
    "sac": (SACConfig, SAC),
    "fast_td3": (FastTD3Config, FastTD3),
}


def build(cfg: Any, context: AlgoContext) -> Algo:
    """Build the algorithm that a config belongs to."""
    builders = dict(ALGOS.values())
    if type(cfg) not in builders:
        raise UserError(f"{type(cfg).__name__} is not the config of an algorithm; known algorithms: {', '.join(ALGOS)}")
    check_values(cfg, "algo.")
    algo: Algo = builders[type(cfg)](cfg, context)
    return algo
