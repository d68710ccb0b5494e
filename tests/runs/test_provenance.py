"""What a summary says about the machine: how many runs shared the device."""

import json

import pytest

from polytask.cli.main import main
from polytask.runs.provenance import RUNS_ON_DEVICE, runs_on_device

WORDS = [
    "tasks=[reach]",
    "num_envs=2",
    "algo.horizon=4",
    "algo.minibatch=8",
    "eval_episodes=0",
    "threads=1",
    "video=false",
]


def test_a_run_remembers_the_most_runs_that_shared_its_device(tmp_path, monkeypatch):
    def shared(*words):
        assert main(["train", *words]) == 0
        return json.loads((tmp_path / "run" / "summary.json").read_text())["runs_on_device"]

    folder = tmp_path / "run"
    monkeypatch.delenv(RUNS_ON_DEVICE, raising=False)
    assert shared(*WORDS, "max_iterations=1", f"run_dir={folder}") is None
    for number, (told, expected) in enumerate([("2", 2), ("4", 4), ("1", 4), (None, 4)], start=2):
        monkeypatch.delenv(RUNS_ON_DEVICE, raising=False)
        if told is not None:
            monkeypatch.setenv(RUNS_ON_DEVICE, told)
        assert shared(f"checkpoint={folder}", f"max_iterations={number}") == expected


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", ""])
def test_a_wrong_number_of_runs_is_one_line_before_anything_is_built(text, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(RUNS_ON_DEVICE, text)
    assert main(["train", *WORDS, "max_iterations=1", f"run_dir={tmp_path / 'run'}"]) == 2
    line = f"{RUNS_ON_DEVICE}='{text}' is not valid; it must be a number of runs, at least 1"
    assert capsys.readouterr().err.splitlines() == [f"polytask: {line}"]
    assert not list(tmp_path.iterdir())


def test_the_number_is_the_one_that_was_told(monkeypatch):
    monkeypatch.setenv(RUNS_ON_DEVICE, "12")
    assert runs_on_device() == 12
