"""The examples run, stay short, and do what their first lines promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
TINY = ["tasks=[reach,drawer-close]", "num_envs=4", "episode_length=12", "algo.horizon=8", "algo.minibatch=16"]
TINY += ["threads=1", "max_iterations=2", "eval_episodes=2"]


def run(folder: Path, name: str, *words: str) -> str:
    """Run an example as a user would, in an empty folder, and return what it prints."""
    command = [sys.executable, str(FOLDER / f"{name}.py"), *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_experts_roll_out(tmp_path: Path) -> None:
    lines = run(tmp_path, "roll_out").splitlines()
    assert len(lines) == 10
    assert lines[0] == "reach                  4 of 4 episodes succeeded"


def test_an_added_task_is_solved_by_its_expert(tmp_path: Path) -> None:
    assert run(tmp_path, "add_a_task") == "hover: the expert succeeds in 8 of 8 worlds\n"


def test_a_policy_is_trained_and_loaded(tmp_path: Path) -> None:
    out = run(tmp_path, "train", *TINY, "run_dir=here")
    assert "2 iterations, 64 frames, files in here:" in out
    assert "checkpoint.pt, config.yaml, curves.png, lock, metrics.jsonl, start.json, summary.json" in out
    lines = run(tmp_path, "load_policy", "here").splitlines()
    assert [line.split()[0] for line in lines] == ["reach", "drawer-close"]
    assert all(line.endswith("of 4 episodes succeeded") for line in lines)


def test_two_methods_are_compared(tmp_path: Path) -> None:
    out = run(tmp_path, "compare_methods", "table", *TINY)
    rows = [line.split()[1:] for line in out.splitlines() if line.startswith("│")]
    assert [row[0] for row in rows if row[0] != "│"] == ["mlp", "multihead"]  # a long cell takes two lines
    assert (tmp_path / "table" / "report" / "report.md").is_file()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_examples_are_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 40
