"""The presets of the benchmark's parkour experiments are complete, and their learners can be built and act."""

from __future__ import annotations

import pytest
import torch

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
