"""Every function that is compiled on a GPU compiles without a break, and an iteration then gives the same numbers."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.learning import SEARCH, compile_on_cpu, context_of, flat, know_success
from helpers.toy import PointMass
from torch.testing import assert_close

from polytask import algos
from polytask.algos.fast_td3 import FastTD3Config
from polytask.algos.grpo import GRPOConfig
from polytask.algos.ppo import PPOConfig
from polytask.algos.pqn import PQNConfig
from polytask.algos.sac import SACConfig
from polytask.grads.mean import MeanConfig
from polytask.nets.bro import BroConfig
from polytask.nets.care import CareConfig
from polytask.nets.mlp import MlpConfig
from polytask.nets.paco import PacoConfig
from polytask.nets.simba_v2 import SimbaV2Config
from polytask.nets.soft_modular import SoftModularConfig

OFF_POLICY = {"steps_per_iteration": 2, "learning_starts": 1, "updates_per_step": 1, "batch": 12, "capacity": 100}
ALGOS = {
    "ppo": (PPOConfig(horizon=4, epochs=1), MlpConfig(hidden=[8])),
    "ppo_options": (
        PPOConfig(horizon=4, epochs=2, schedule="adaptive", final_std=0.5, critic="categorical"),
        MlpConfig(hidden=[8]),
    ),
    "ppo_search": (PPOConfig(horizon=4, epochs=2, **SEARCH), SimbaV2Config(hidden=8, blocks=1)),
    "grpo": (GRPOConfig(epochs=1), MlpConfig(hidden=[8])),
    "grpo_search": (GRPOConfig(epochs=1, **SEARCH), MlpConfig(hidden=[8])),
    "pqn": (PQNConfig(horizon=4, epochs=1), MlpConfig(hidden=[8])),
    "sac": (SACConfig(**OFF_POLICY, n_step=3), MlpConfig(hidden=[8])),
    "sac_categorical": (
        SACConfig(**OFF_POLICY, n_step=3, critic="categorical", twin="mean", atoms=11),
        BroConfig(hidden=8, blocks=1, task_code="embedding"),
    ),
    "sac_published": (
        SACConfig(**OFF_POLICY, weigh_by_temperature=True),
        CareConfig(hidden=[8], context="learned", context_hidden=[8], action="trunk"),
    ),
    "pqn_modules": (
        PQNConfig(horizon=4, epochs=1),
        SoftModularConfig(width=8, state_hidden=[8], feature_dim=8, layers=2, activation="elu", layer_norm=True),
    ),
    "fast_td3_bounded": (
        FastTD3Config(**OFF_POLICY, twin="mean"),
        MlpConfig(hidden=[8], task_code="embedding", embedding_norm=0.5),
    ),
    "sac_masked": (SACConfig(**OFF_POLICY), PacoConfig(sets=2, hidden=[8]), MeanConfig(apply_to="both", max_loss=0.5)),
    "fast_td3": (FastTD3Config(**OFF_POLICY, n_step=3), SimbaV2Config(hidden=8, blocks=1)),
}


def state_after_two_iterations(name: str) -> dict[str, Any]:
    cfg, net, *grads = ALGOS[name]
    env = PointMass((3, 4, 4))  # enough worlds for GRPO to lend some
    algo = algos.build(cfg, context_of(env, net, *grads))
    algo.iterate(env)
    if name.endswith("search"):
        know_success(algo, 0.0, 1.0, 0.5)
    metrics = algo.iterate(env)
    assert not name.endswith("search") or metrics["rollout/borrowed"] > 0
    return flat(algo.state_dict())


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch about itself
@pytest.mark.parametrize("name", ALGOS)
def test_compiled_functions_give_the_same_numbers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = state_after_two_iterations(name)
    compile_on_cpu(monkeypatch)
    assert_close(state_after_two_iterations(name), plain, rtol=1e-4, atol=1e-5)
