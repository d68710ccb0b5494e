"""A small GRPO for the tests."""

from __future__ import annotations

from typing import Any

from helpers.learning import context_of
from helpers.toy import PointMass
from polytask import algos
from polytask.algos.grpo import GRPO, GRPOConfig
from polytask.nets.mlp import MlpConfig


def make(env: PointMass, *, net: Any = None, grads: Any = None, total_frames: int = 10**6, **settings: Any) -> GRPO:
    """Build a small GRPO for the environment."""
    context = context_of(env, net or MlpConfig(hidden=[32, 32]), grads, total_frames)
    algo = algos.build(GRPOConfig(**{"minibatch": 256, "epochs": 2, "lr": 2e-3, **settings}), context)
    assert isinstance(algo, GRPO)
    return algo
