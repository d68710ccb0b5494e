"""What `import polytask` sets up, each in a process of its own: settings of libraries that read them once."""

from __future__ import annotations

import os
import subprocess
import sys

VARIABLE = "ONEDNN_MAX_CPU_ISA"
CAP = "AVX512_CORE_BF16"  # the last instruction set before AMX

# Print the variable at the moment that torch is imported, which is before its first product.
WATCH = f"""
import ctypes, sys
getenv = ctypes.CDLL(None).getenv  # what libraries see
getenv.restype = ctypes.c_char_p

class Watch:
    def find_spec(self, name, *_):
        if name == "torch":
            print("torch sees", getenv(b"{VARIABLE}").decode())

sys.meta_path.insert(0, Watch())
"""


def python(*words: str, drop: tuple[str, ...] = (), **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python without the variables that this process has set."""
    kept = {name: value for name, value in os.environ.items() if name not in (VARIABLE, *drop)}
    return subprocess.run(
        [sys.executable, *words], env=kept | variables, capture_output=True, text=True, check=True, timeout=600
    )


def test_torch_is_limited_before_its_first_product() -> None:
    library = python("-c", f"{WATCH}\nimport polytask; polytask.make")
    command = python("-c", f"{WATCH}\nfrom polytask.cli.main import main; main(['list', 'tasks'])")
    for found in (library, command):
        assert found.stdout.splitlines()[0] == f"torch sees {CAP}"


def test_the_value_of_the_user_is_kept() -> None:
    found = python("-c", f"{WATCH}\nimport polytask; polytask.make", **{VARIABLE: "AVX2"})
    assert found.stdout.splitlines()[0] == "torch sees AVX2"


def test_tests_and_the_processes_they_start_are_limited() -> None:
    assert os.environ[VARIABLE]
    code = f"import os; print(os.environ['{VARIABLE}'])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == os.environ[VARIABLE]


def test_nothing_warns_at_the_start() -> None:
    found = python("-W", "error", "-m", "polytask", "show", "train")
    assert found.stderr == ""


def test_pictures_work_if_mujoco_was_imported_first() -> None:
    code = """
import mujoco
import polytask
from polytask.envs.render import Renderer

env = polytask.make(tasks=["reach"], num_envs=1, stagger=False, threads=1)
print(Renderer(env, "reach", 64, 48).frame().std() > 10)
"""
    found = python("-c", code, drop=("MUJOCO_GL", "DISPLAY"))
    assert found.stdout.strip() == "True", found.stderr
