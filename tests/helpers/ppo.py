"""A small PPO for the tests."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from helpers.learning import context_of
from helpers.toy import PointMass
from polytask import algos
from polytask.algos.ppo import PPO, PPOConfig, PPORows
from polytask.nets.mlp import MlpConfig


def make(env: PointMass, *, net: Any = None, grads: Any = None, total_frames: int = 10**6, **settings: Any) -> PPO:
    """Build a small PPO for the environment."""
    context = context_of(env, net or MlpConfig(hidden=[32, 32]), grads, total_frames)
    algo = algos.build(PPOConfig(**{"horizon": 16, "minibatch": 256, "epochs": 2, "lr": 1e-3, **settings}), context)
    assert isinstance(algo, PPO)
    return algo


def zeros_of_the_policy() -> dict[str, Tensor]:
    """Return the columns of the policy's loss that are not numbers, for four rows of one task."""
    zeros = {name: torch.zeros(4, 3) for name in ("obs", "last_obs", "past_obs")}
    zeros |= {name: torch.zeros(4, 2) for name in ("action", "mean", "log_std", "last_action", "past_action")}
    return zeros | {"task": torch.zeros(4, dtype=torch.int64)}


def rows_of(**columns: list[float]) -> PPORows:
    """Build four rows of one task whose other entries are zero."""
    plain = {name: torch.zeros(4) for name in ("log_prob", "advantage", "value", "target")}
    given = {name: torch.tensor(column) for name, column in columns.items()}
    return PPORows(**{**zeros_of_the_policy(), **plain, **given})
