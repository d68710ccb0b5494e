"""The presets of the benchmark's parkour experiments are complete, and their learners can be built and act."""

from __future__ import annotations

import pytest
import torch

import polytask
from polytask.config.compose import compose
from polytask.config.presets import presets
from polytask.config.schema import TrainConfig
from polytask.envs.suites import SUITES
from polytask.runs.setup import build_algo
from polytask.types import EnvSpec

METHODS = ("vanilla", "multihead", "pcgrad", "cagrad", "famo", "soft_modular", "moore", "paco", "care")
SETTINGS = ("easy", "hard", "hard_cl")


def test_every_method_has_every_setting() -> None:
    expected = {f"parkour/{method}_{setting}" for method in METHODS for setting in SETTINGS}
    assert expected <= set(presets())


@pytest.mark.parametrize("method", METHODS)
def test_learner_builds_and_acts(method: str) -> None:
    config = compose(TrainConfig, [f"preset=parkour/{method}_hard_cl", "device=cpu"])
    assert config.suite == "parkour-hard-cl"
    assert config.max_frames == 4000 * 32 * 4096
    tasks = SUITES["parkour-hard-cl"]
    spec = EnvSpec(212, 12, tasks, (1,) * len(tasks), 2000)
    algo = build_algo(config, spec, torch.device("cpu"))
    action = algo.act(torch.zeros(21, 212), torch.arange(21), explore=False)
    assert action.shape == (21, 12)
    assert torch.isfinite(action).all()


@pytest.mark.parametrize("method", METHODS)
def test_the_benchmarks_presets_learn_as_it_does(method: str) -> None:
    algo = compose(TrainConfig, [f"preset=parkour/{method}_hard"]).algo
    assert (algo.schedule, algo.lr, algo.min_lr, algo.max_lr, algo.first_lr) == ("adaptive", 5e-4, 1e-6, 1e-2, None)
    assert algo.target_kl == (0.01 if method == "moore" else 0.008)
    assert (algo.normalize, algo.obs_clip) == ("none", 100.0)
    assert algo.entropy_coef == (0.005 if method in ("soft_modular", "moore", "paco") else 0.001)
    assert (algo.horizon, algo.epochs, algo.minibatch, algo.gamma, algo.lam) == (32, 5, 16384, 0.99, 0.95)


def test_the_first_iteration_sees_raw_observations() -> None:
    config = compose(TrainConfig, ["preset=parkour/vanilla_hard", "device=cpu"])
    with polytask.make("parkour-hard", num_envs=21, threads=1) as env:
        algo = build_algo(config, env.spec, torch.device("cpu"))
        assert torch.equal(algo.loop.obs_norm.normalize(env.obs, env.task), env.obs)  # type: ignore[attr-defined]


@pytest.mark.parametrize("net", ["vanilla", "multihead", "moore", "simba_v2"])
def test_tuned_presets_add_what_they_say_and_change_nothing_else(net: str) -> None:
    tuned = compose(TrainConfig, [f"preset=parkour/{net}_hard_cl_tuned", "device=cpu"])
    assert (tuned.algo.schedule, tuned.algo.target_kl, tuned.algo.normalize) == ("adaptive", 0.008, "fixed")
    assert tuned.curriculum.revisit == 0.2
    if net != "simba_v2":  # the benchmark does not have it
        plain = compose(TrainConfig, [f"preset=parkour/{net}_hard_cl", "device=cpu"])
        assert (plain.algo.schedule, plain.algo.normalize, plain.curriculum.revisit) == ("adaptive", "none", 0.0)
        words = ("algo.first_lr=1e-5", "algo.min_lr=1e-5", "algo.target_kl=0.008", "algo.normalize=fixed")
        others = ("algo.obs_clip=10.0", "device=cpu", "curriculum.revisit=0.2")
        assert tuned == compose(TrainConfig, [f"preset=parkour/{net}_hard_cl", *words, *others])
    env = polytask.make("parkour-hard-cl", num_envs=21, threads=1)
    algo = build_algo(tuned, env.spec, torch.device("cpu"))
    assert torch.isfinite(algo.act(env.obs, env.task, explore=False)).all()


@pytest.mark.parametrize("setting", ["flat", *SETTINGS])
def test_real_presets_are_the_tuned_ones_with_another_robot(setting: str) -> None:
    real = compose(TrainConfig, [f"preset=parkour/go1_real_{setting}"])
    words = [f"preset=parkour/vanilla_{setting}_tuned", "robot=go1_real", "privileged=critic"]
    assert real == compose(TrainConfig, words)
    assert (real.device, real.num_envs) == ("cuda", 4096)


def test_learner_of_a_real_robot_builds_and_acts() -> None:
    config = compose(TrainConfig, ["preset=parkour/go1_real_easy", "device=cpu"])
    env = polytask.make("parkour-easy", num_envs=21, threads=1, robot="go1_real", privileged="critic")
    algo = build_algo(config, env.spec, torch.device("cpu"))
    assert torch.isfinite(algo.act(env.obs, env.task, explore=False)).all()
    small = compose(TrainConfig, ["preset=parkour/go1_real_cpu"])
    assert (small.tasks, small.device, small.privileged, small.robot) == (["flat"], "cpu", "critic", "go1_real")
    assert (small.algo.normalize, small.max_frames) == ("fixed", 5_000_000)  # as measured


@pytest.mark.parametrize("robot", ["go1", "go1_real"])
def test_fixed_scales_bring_every_number_to_order_one(robot: str) -> None:
    env = polytask.make("parkour-hard", num_envs=210, threads=1, stagger=False, robot=robot)
    generator = torch.Generator().manual_seed(0)
    actions = (2 * torch.rand(210, 12, generator=generator) - 1 for _ in range(20))
    seen = [env.step(action).next_obs.clone() for action in actions]
    size = (torch.cat(seen) * torch.tensor(env.spec.obs_scale)).square().mean(0).sqrt()
    assert len(size) == env.spec.obs_dim
    assert size.min() > 0.05
    assert size.max() < 5.0
