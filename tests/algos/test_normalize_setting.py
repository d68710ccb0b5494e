"""`algo.normalize`: every learner trains, resumes and starts from another run with each normalizer of observations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from helpers.learning import assert_resumes, context_of
from helpers.toy import PointMass
from torch.testing import assert_close

from polytask import algos
from polytask.algos.shared.normalize import NORMALIZE, FixedScale, SharedNormalizer, TaskNormalizer
from polytask.errors import UserError
from polytask.nets.mlp import MlpConfig
from polytask.runs.transfer import initialize

SCALE = (2.0, 0.5, 1.0)
KINDS = {"per_task": TaskNormalizer, "shared": SharedNormalizer, "fixed": FixedScale, "none": FixedScale}
TINY: dict[str, dict[str, Any]] = {
    "ppo": {"horizon": 8, "minibatch": 32, "epochs": 1},
    "grpo": {"minibatch": 64, "epochs": 1},
    "pqn": {"horizon": 8, "epochs": 1, "minibatches": 1},
    "sac": {"steps_per_iteration": 6, "batch": 24, "learning_starts": 2, "capacity": 1000},
    "fast_td3": {"steps_per_iteration": 6, "batch": 24, "learning_starts": 2, "capacity": 1000},
}
every_algo = pytest.mark.parametrize("name", TINY)
every_way = pytest.mark.parametrize("way", NORMALIZE)


def build(name: str, env: PointMass, way: str) -> Any:
    env.spec = replace(env.spec, obs_scale=SCALE)
    config = algos.ALGOS[name][0](**TINY[name], normalize=way)
    return algos.build(config, context_of(env, MlpConfig(hidden=[16])))


@every_algo
@every_way
def test_learner_has_the_chosen_normalizer_and_resumes_bit_for_bit(name: str, way: str) -> None:
    algo = build(name, PointMass((4, 4, 4)), way)
    assert type(algo.networks()["obs_norm"]) is KINDS[way]
    assert_resumes(lambda env: build(name, env, way), after=1)


@every_algo
@every_way
def test_a_run_starts_from_a_finished_one_with_the_same_normalizer(name: str, way: str) -> None:
    env = PointMass((4, 4, 4))
    old, new = build(name, env, way), build(name, PointMass((4, 4, 4), seed=1), way)
    old.iterate(env)
    found = initialize(new, env.spec.tasks, {"algo": old.state_dict(), "spec": {"tasks": env.spec.tasks}}, "old")
    assert not (found.fresh or found.unused or found.partly)
    obs = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))
    assert_close(new.act(obs, env.task, explore=False), old.act(obs, env.task, explore=False), rtol=0, atol=0)


def test_shared_statistics_are_taken_over_by_a_run_with_other_tasks() -> None:
    one, three = PointMass((4,)), PointMass((4, 4, 4))
    old, new = build("ppo", one, "shared"), build("ppo", three, "shared")
    old.iterate(one)
    found = initialize(new, three.spec.tasks, {"algo": old.state_dict(), "spec": {"tasks": one.spec.tasks}}, "old")
    assert {"obs_norm.count", "obs_norm.mean", "obs_norm.variance"} <= set(found.loaded)


def test_statistics_of_another_kind_are_not_taken_over_and_named() -> None:
    env = PointMass((4, 4, 4))
    old, new = build("ppo", env, "per_task"), build("ppo", env, "shared")
    old.iterate(env)
    found = initialize(new, env.spec.tasks, {"algo": old.state_dict(), "spec": {"tasks": env.spec.tasks}}, "old")
    assert {"obs_norm.count", "obs_norm.mean", "obs_norm.variance"} <= set(found.fresh) & set(found.unused)


def test_none_leaves_observations_as_they_are_and_only_bounds_them() -> None:
    norm = build("sac", PointMass((4, 4, 4)), "none").networks()["obs_norm"]
    obs, task = torch.tensor([[0.25, -3.0, 1e6]]).expand(12, 3), torch.arange(3).repeat_interleave(4)
    norm.update(100.0 * obs, task)
    assert_close(norm.normalize(obs, task), torch.tensor([[0.25, -3.0, 10.0]]).expand(12, 3), rtol=0, atol=0)


def test_fixed_needs_scales() -> None:
    env = PointMass((4, 4, 4))
    with pytest.raises(UserError, match=r"algo.normalize=fixed does not apply: these tasks declare no scales"):
        algos.build(algos.ALGOS["ppo"][0](normalize="fixed"), context_of(env, MlpConfig(hidden=[16])))
