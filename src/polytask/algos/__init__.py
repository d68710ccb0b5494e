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

__all__ = ["ALGOS", "AlgoContext", "build", "require_apart"]

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
    if context.spec.actor_dim is not None:
        require_apart(cfg)
    algo: Algo = builders[type(cfg)](cfg, context)
    return algo


def require_apart(cfg: Any) -> None:
    """Check that the critic of an algorithm may see more than its policy.

    Raises:
        UserError: If policy and critic see the same, or there is no critic.
    """
    if not getattr(cfg, "critic_may_see_more", False):
        able = [name for name, (config, _) in ALGOS.items() if getattr(config, "critic_may_see_more", False)]
        raise UserError(
            f"privileged=critic needs a critic that sees more than the policy, which algo={cfg.name} has not; "
            f"use algo={' or '.join(able)}, or privileged=none"
        )
