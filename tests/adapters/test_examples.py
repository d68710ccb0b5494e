"""The examples of the adapters: each library learns reach on the CPU. Each runs in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "adapters"
LIBRARIES = {"rsl_rl": "rsl_rl", "sb3": "stable_baselines3", "skrl": "skrl", "torchrl": "torchrl"}
MODULES = Path(__file__).parents[2] / "src" / "polytask" / "adapters"


def test_every_adapter_has_an_example_and_both_are_short() -> None:
    assert {path.stem.removesuffix("_reach") for path in FOLDER.glob("*.py")} == set(LIBRARIES)
    assert {path.stem for path in MODULES.glob("*.py")} == {*LIBRARIES, "__init__"}
    assert all(len(path.read_text().splitlines()) < 80 for path in MODULES.glob("*.py"))
    assert all(len(path.read_text().splitlines()) <= 50 for path in FOLDER.glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("name", LIBRARIES)
def test_reach_is_learned(name: str, tmp_path: Path) -> None:
    if find_spec(LIBRARIES[name]) is None:
        pytest.skip(f"{LIBRARIES[name]} is not installed")
    command = [sys.executable, str(FOLDER / f"{name}_reach.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    found = re.search(r"^success (\d\.\d\d) after", done.stdout, re.MULTILINE)
    assert found is not None, done.stdout
    assert float(found[1]) >= 0.8
