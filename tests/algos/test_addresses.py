"""Captured graphs read tensors by their address: loading a state copies into a learner's tensors."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from helpers.learning import SEARCH, context_of
from helpers.toy import PointMass

from polytask import algos
from polytask.cuda_graph import addresses
from polytask.grads import GRADS
from polytask.nets.mlp import MlpConfig

SMALL = {"steps_per_iteration": 2, "learning_starts": 1, "updates_per_step": 1, "batch": 12, "capacity": 100}
LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": ("ppo", {}),
    "ppo, adaptive": ("ppo", {"schedule": "adaptive", "final_std": 0.1}),
    "ppo, search": ("ppo", SEARCH),
    "grpo": ("grpo", {}),
    "pqn": ("pqn", {}),
    "sac": ("sac", SMALL),
    "fast_td3": ("fast_td3", SMALL),
}


def trained(name: str, grads: str, settings: dict[str, Any]) -> Any:
    config, method = algos.ALGOS[name][0](**settings), GRADS[grads][0]()
    env = PointMass((4, 4, 4))
    algo = algos.build(config, context_of(env, MlpConfig(hidden=[8]), method))
    algo.iterate(env)
    return algo


@pytest.mark.parametrize(("name", "settings"), LEARNERS.values(), ids=list(LEARNERS))
def test_loading_copies_into_the_tensors_of_every_learner(name: str, settings: dict[str, Any]) -> None:
    algo = trained(name, "mean", settings)
    before = addresses(algo)
    assert any(name.endswith("weight") for name in before)
    algo.load_state_dict(copy.deepcopy(algo.state_dict()))
    assert addresses(algo) == before


@pytest.mark.parametrize("grads", GRADS)
def test_loading_copies_into_the_tensors_of_every_gradient_method(grads: str) -> None:
    algo = trained("ppo", grads, {})
    before = addresses(algo)
    algo.load_state_dict(copy.deepcopy(algo.state_dict()))
    assert addresses(algo) == before


@pytest.mark.parametrize(("name", "graph"), [("ppo", "loop.update"), ("sac", "_update"), ("fast_td3", "_update_both")])
def test_loading_discards_the_graphs_of_updates(name: str, graph: str) -> None:
    """Torch replaces the moments of an optimizer when it loads them."""
    algo = trained(name, "mean", LEARNERS[name][1])

    def captured() -> Any:
        owner = algo
        for part in graph.split("."):
            owner = getattr(owner, part)
        return owner

    before = captured()
    algo.load_state_dict(copy.deepcopy(algo.state_dict()))
    assert captured() is not before
