"""A burst of MuJoCo's warnings is one line and a count, and leaves no log file."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mujoco
import pytest

from polytask.sim.mujoco_warnings import WarningCounter

UNSTABLE = "Nan, Inf or huge value in QACC at DOF {}. The simulation is unstable. Time = {:.4f}."


def test_the_first_warning_of_a_kind_is_printed_and_all_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    counter = WarningCounter()
    for number in range(3):
        counter.add(UNSTABLE.format(number, number / 8))
    counter.add("Too many contacts. The arena memory is full.(ncon = 7)")
    first = capsys.readouterr().err.splitlines()
    assert [line.partition(";")[0] for line in first] == [
        "MuJoCo: Nan, Inf or huge value in QACC",
        "MuJoCo: Too many contacts",
    ]
    counter.report()
    assert capsys.readouterr().err == "MuJoCo: Nan, Inf or huge value in QACC, 3 times\n"


def test_each_of_mujocos_own_warnings_is_one_kind(capsys: pytest.CaptureFixture[str]) -> None:
    counter = WarningCounter()
    for warning in range(int(mujoco.mjtWarning.mjNWARNING)):
        for info in (0, 7, 123):
            counter.add(mujoco.mju_warningText(warning, info))
    assert len(capsys.readouterr().err.splitlines()) == mujoco.mjtWarning.mjNWARNING


class SlowCounter(Counter[str]):
    """A counter that lets other threads run between reading a count and writing it."""

    def __getitem__(self, key: str) -> int:
        count = super().__getitem__(key)
        time.sleep(1e-4)
        return count


def test_threads_lose_no_warning(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polytask.sim.mujoco_warnings.Counter", SlowCounter)
    counter = WarningCounter()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: [counter.add("Bad") for _ in range(20)], range(8)))
    counter.report()
    assert capsys.readouterr().err.splitlines()[1:] == ["MuJoCo: Bad, 160 times"]


def test_actions_that_are_not_numbers_leave_two_lines_and_no_file(tmp_path: Path) -> None:
    code = """
import torch
import polytask

env = polytask.make(tasks=["reach", "drawer-open"], num_envs=8, threads=2, stagger=False)
for _ in range(5):
    env.step(torch.full((8, 4), torch.nan))
"""
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    lines = [line for line in found.stderr.splitlines() if "QACC" in line]
    assert lines[0].startswith("MuJoCo: Nan, Inf or huge value in QACC; ")
    assert lines[1:] == ["MuJoCo: Nan, Inf or huge value in QACC, 40 times"]
    assert not list(tmp_path.iterdir())


def test_a_function_of_the_user_stays(tmp_path: Path) -> None:
    code = """
import mujoco, torch
import polytask

seen = []
mujoco.set_mju_user_warning(seen.append)
env = polytask.make(tasks=["reach"], num_envs=1, threads=1, stagger=False)
env.step(torch.full((1, 4), torch.nan))
print(len(seen) > 0)
"""
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (found.stdout, found.stderr) == ("True\n", "")
