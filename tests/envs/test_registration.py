"""Gymnasium finds the environments. Each test runs in a process of its own, because ids are registered once."""

from __future__ import annotations

import subprocess
import sys

import pytest

RESET = "print(env.reset(seed=0)[0].shape)"
SMALL = "num_envs=10, threads=1"


def python(code: str) -> str:
    """Run code in a new process, in which a warning is an error, and return what it prints."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    "code",
    [
        f"import gymnasium; env = gymnasium.make_vec('polytask:polytask/MT10-v0', {SMALL})",
        f"import polytask, gymnasium; env = gymnasium.make_vec('polytask/MT10-v0', {SMALL})",
        f"import gymnasium, polytask; env = gymnasium.make_vec('polytask/MT10-v0', {SMALL})",
        f"import polytask; from gymnasium import make_vec; env = make_vec('polytask/MT10-v0', {SMALL})",
    ],
)
def test_a_suite_is_found(code: str) -> None:
    assert python(f"{code}; {RESET}") == "(10, 39)"


def test_a_task_is_found() -> None:
    assert python(f"import gymnasium; env = gymnasium.make('polytask:polytask/reach-v0'); {RESET}") == "(39,)"


def test_looking_for_gymnasium_does_not_lose_the_ids() -> None:
    look = "import polytask; from importlib.util import find_spec; find_spec('gymnasium')"
    ids = "sorted(name for name in gymnasium.registry if name.startswith('polytask/'))"
    found = python(f"{look}; import gymnasium; names = {ids}; print(len(names), names[0], names[-1])")
    assert found == "82 polytask/ML10-TEST-v0 polytask/window-open-v0"  # 11 suites, 50 tasks, 21 terrains


def test_importing_polytask_is_cheap() -> None:
    heavy = "{'torch', 'mujoco', 'numpy', 'gymnasium', 'hydra'}"
    assert python(f"import sys, polytask; print({heavy} & set(sys.modules))") == "set()"
    assert python(f"import sys, polytask, gymnasium; print({heavy} - {{'numpy', 'gymnasium'}} & set(sys.modules))") == (
        "set()"
    )


def test_the_hook_goes_away_with_its_work() -> None:
    hooks = "[type(one).__name__ for one in sys.meta_path if 'polytask' in type(one).__module__]"
    code = f"import sys, polytask; print({hooks}); import gymnasium; print({hooks})"
    assert python(code).splitlines() == ["['_RegisterWithGymnasium']", "[]"]


def test_dir_shows_make() -> None:
    assert python("import polytask; print('make' in dir(polytask), '__version__' in dir(polytask))") == "True True"
