"""Inputs that hardly vary in training: a policy must not act on the last digits of a simulation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from helpers.learning import context_of
from helpers.toy import PointMass

from polytask import algos
from polytask.algos.fast_td3 import FastTD3Config
from polytask.algos.grpo import GRPOConfig
from polytask.algos.ppo import PPOConfig
from polytask.algos.pqn import PQNConfig
from polytask.algos.sac import SACConfig
from polytask.config.compose import compose
from polytask.config.schema import TrainConfig
from polytask.nets.mlp import MlpConfig

OFF_POLICY = {"steps_per_iteration": 4, "learning_starts": 1, "updates_per_step": 1, "batch": 12, "capacity": 1000}
ALGOS: dict[str, Any] = {
    "ppo": PPOConfig(horizon=4, epochs=1),
    "grpo": GRPOConfig(epochs=1),
    "pqn": PQNConfig(horizon=4, epochs=1),
    "sac": SACConfig(**OFF_POLICY),
    "fast_td3": FastTD3Config(**OFF_POLICY),
}
SHIFT = torch.tensor([0.0, 0.0, 2e-4])  # 0.2 mm in the entry that the point mass keeps constant


def trained(cfg: Any, iterations: int) -> tuple[Any, PointMass]:
    env = PointMass((8, 8, 8))
    algo = algos.build(cfg, context_of(env, MlpConfig(hidden=[32, 32])))
    for _ in range(iterations):
        algo.iterate(env)
    return algo, env


@pytest.mark.parametrize("name", ALGOS)
def test_observations_are_divided_by_no_less_than_the_floor(name: str) -> None:
    for floor, expected in ((1e-3, 0.2), (0.0, 2.0), (0.1, 0.002)):
        algo, env = trained(replace(ALGOS[name], min_obs_std=floor), iterations=1)
        norm = algo.networks()["obs_norm"]
        moved = norm.normalize(env.obs + SHIFT, env.task) - norm.normalize(env.obs, env.task)
        assert moved[:, 2].tolist() == pytest.approx([expected] * len(moved), rel=0.02)
        assert not moved[:, :2].any()
    assert ALGOS[name].min_obs_std == 1e-2


def test_runs_saved_before_there_was_a_floor_get_it() -> None:
    saved = {"suite": "mt10", "max_frames": 1000, "algo": {"name": "ppo", "obs_clip": 5.0}}
    algo = compose(TrainConfig, [], saved=saved).algo
    assert (algo.obs_clip, algo.min_obs_std) == (5.0, 1e-2)


def test_an_input_that_was_constant_hardly_moves_the_action() -> None:
    change = {}
    for floor in (0.0, 1e-3):
        ppo, env = trained(PPOConfig(horizon=16, lr=1e-3, min_obs_std=floor), iterations=8)
        before, after = (ppo.act(obs, env.task, explore=False) for obs in (env.obs, env.obs + SHIFT))
        change[floor] = (after - before).abs().mean().item()
    assert change[1e-3] < 0.03 < 3 * change[1e-3] < change[0.0]
