"""The examples of the adapters: each library learns reach on the CPU. Each runs in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from polytask.envs.multi_task import MultiTaskEnv

FOLDER = Path(__file__).parents[2] / "examples" / "adapters"
LIBRARIES = {"rsl_rl": "rsl_rl", "sb3": "stable_baselines3", "skrl": "skrl", "torchrl": "torchrl"}
MODULES = Path(__file__).parents[2] / "src" / "polytask" / "adapters"
CHANCE = 0.1  # neither random actions nor an untrained policy succeed more often


def test_every_adapter_has_an_example_and_both_are_short() -> None:
    assert {path.stem.removesuffix("_reach") for path in FOLDER.glob("*.py")} == set(LIBRARIES)
    assert {path.stem for path in MODULES.glob("*.py")} == {*LIBRARIES, "__init__"}
    assert all(len(path.read_text().splitlines()) < 80 for path in MODULES.glob("*.py"))
    assert all(len(path.read_text().splitlines()) <= 30 for path in FOLDER.glob("*.py"))


def test_random_actions_rarely_reach(make: Callable[..., MultiTaskEnv]) -> None:
    worlds = make(tasks=["reach"], num_envs=50, episode_length=100, seed=1)
    generator = torch.Generator().manual_seed(0)
    for _ in range(100):
        worlds.step(2 * torch.rand(50, 4, generator=generator) - 1)
    metrics = worlds.pop_metrics()
    assert metrics["episodes"].item() == 50
    assert metrics["success"].item() / 50 <= CHANCE


@pytest.mark.slow
@pytest.mark.parametrize("name", LIBRARIES)
def test_reach_is_learned(name: str, tmp_path: Path) -> None:
    if find_spec(LIBRARIES[name]) is None:
        pytest.skip(f"{LIBRARIES[name]} is not installed")
    command = [sys.executable, str(FOLDER / f"{name}_reach.py")]
    settings = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"^success (\d\.\d\d) after ([\d,]+) frames$", done.stdout, re.MULTILINE)
    assert len(found) >= 2, done.stdout
    (before, no_frames), (after, _) = found[0], found[-1]
    assert no_frames == "0"
    assert float(before) <= CHANCE
    assert float(after) >= 0.8
