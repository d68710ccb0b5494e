"""Checkpoints are atomic, safe to open, and complete: a resumed run equals an uninterrupted one."""

import json
import os
import pickle
import shutil
import signal
from pathlib import Path

import pytest
import torch

from polytask.cli.main import main
from polytask.config.compose import compose
from polytask.config.schema import TrainConfig
from polytask.errors import UserError
from polytask.files import restore
from polytask.runs.checkpoint import load, locate, save
from polytask.runs.progress import ProgressDisplay
from polytask.runs.run import Run
from polytask.runs.train import iterate, train

# Two scenes, an episode end within two iterations, and evaluations, so that all parts of a run's state are tested.
WORDS = [
    "tasks=[reach,drawer-close]",
    "num_envs=4",
    "episode_length=20",
    "algo.horizon=16",
    "algo.minibatch=32",
    "algo.epochs=2",
    "success_window=3",
    "eval_episodes=1",
    "threads=1",
    "video=false",
]


STATE = {
    "config": {group: {"name": "x"} for group in ("algo", "net", "grads")},
    "spec": {"obs_dim": 3, "action_dim": 2, "tasks": ("a",), "envs_per_task": (1,), "episode_length": 5},
    "algo": {"learners": {}},
    "env": {},
    "window": {},
    "iteration": 1,
    "seconds": 0.5,
}


def test_save_then_load(tmp_path):
    save(tmp_path / "checkpoint.pt", {**STATE, "env": {"x": torch.arange(3)}})
    state = load(tmp_path)  # a run directory is valid, too
    assert torch.equal(state["env"]["x"], torch.arange(3))
    assert state["spec"] == STATE["spec"]
    assert os.listdir(tmp_path) == ["checkpoint.pt"]


@pytest.mark.parametrize("moment", ["while writing", "before the rename"])
def test_a_crash_leaves_the_previous_checkpoint(tmp_path, monkeypatch, moment):
    path = tmp_path / "checkpoint.pt"
    save(path, STATE)

    def half(state, file):
        file.write(b"PK half a file")
        raise KeyboardInterrupt

    def die(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", half) if moment == "while writing" else patch.setattr(os, "fsync", die)
        with pytest.raises(KeyboardInterrupt):
            save(path, {**STATE, "iteration": 2})
    assert load(path)["iteration"] == 1
    assert os.listdir(tmp_path) == ["checkpoint.pt"]


def test_missing_checkpoints_are_named(tmp_path):
    for path in (tmp_path, tmp_path / "nothing.pt"):
        with pytest.raises(UserError, match="no checkpoint at"):
            locate(path)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.98])
def test_truncated_checkpoints_are_refused(tmp_path, share):
    path = tmp_path / "checkpoint.pt"
    save(path, {**STATE, "env": {"x": torch.arange(10_000)}})
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(UserError, match="truncated or not a polytask checkpoint"):
        load(path)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "other.pt"
    torch.save({"weights": torch.zeros(1)}, path)
    with pytest.raises(UserError, match="not a polytask checkpoint \\(format 1\\)"):
        load(path)
    path.write_text("hello")
    with pytest.raises(UserError, match="truncated or not a polytask checkpoint"):
        load(path)


class Trap:
    """An object that runs code when it is unpickled without care."""

    def __reduce__(self):
        return os.mkdir, ("sprung",)


def test_opening_a_checkpoint_runs_no_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"format": 1, "trap": Trap()}, "trap.pt")
    Path("raw.pt").write_bytes(pickle.dumps({"format": 1, "trap": Trap()}))
    for name in ("trap.pt", "raw.pt"):
        with pytest.raises(UserError):
            load(name)
    assert not Path("sprung").exists()


def test_a_state_of_another_shape_is_explained_in_one_line():
    with pytest.raises(UserError, match=r"its net has another shape \(size mismatch for weight") as caught:
        restore(torch.nn.Linear(3, 2), torch.nn.Linear(4, 2).state_dict(), "net")
    assert "\n" not in str(caught.value)


def run(directory, *words):
    return train(compose(TrainConfig, [*WORDS, f"run_dir={directory}", *words])).payload


def resume(directory, *words):
    saved = load(directory)["config"]
    return train(compose(TrainConfig, [f"checkpoint={directory}", *words], saved=saved)).payload


def records(directory):
    """Return the rows of metrics, without the entries that depend on time."""
    rows = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    return [{name: row[name] for name in row if name not in ("seconds", "frames_per_second")} for row in rows]


def assert_same(a, b, path=""):
    """Check that two nested states are equal bit for bit."""
    if isinstance(a, dict):
        assert a.keys() == b.keys(), path
        for name in a:
            assert_same(a[name], b[name], f"{path}/{name}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), path
        for index, (left, right) in enumerate(zip(a, b, strict=True)):
            assert_same(left, right, f"{path}/{index}")
    elif isinstance(a, torch.Tensor):
        assert torch.equal(a, b), path
    else:
        assert a == b, path


def assert_same_runs(one, other):
    assert records(one) == records(other)
    first, second = (load(directory) for directory in (one, other))
    for part in ("algo", "env", "window", "spec", "iteration", "frames"):
        assert_same(first[part], second[part], part)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    directory = tmp_path_factory.mktemp("unbroken") / "run"
    run(directory, "max_iterations=4", "eval_every=2")
    return directory


def test_a_resumed_run_equals_an_unbroken_one(unbroken, tmp_path):
    directory = tmp_path / "run"
    run(directory, "max_iterations=2", "eval_every=2")
    assert resume(directory, "max_iterations=4")["iterations"] == 4
    assert records(directory)[-1]["success"] is not None  # episodes ended, so the window was in use
    assert_same_runs(unbroken, directory)


def test_a_run_ends_when_its_minutes_are_over(tmp_path):
    summary = run(tmp_path / "run", "max_iterations=4", "max_minutes=1e-6")
    assert (summary["complete"], summary["iterations"]) == (True, 1)


def test_a_checkpoint_is_written_when_the_last_one_is_too_old(tmp_path, monkeypatch):
    saved = []
    monkeypatch.setattr(Run, "_write", lambda self, algo, worlds: saved.append(self.iteration))
    monkeypatch.setattr("polytask.runs.train.iterate", lambda run: long_iteration(run))
    run(tmp_path / "often", "max_iterations=4", "save_minutes=2", "save_every=100", "eval_episodes=0")
    run(tmp_path / "never", "max_iterations=4", "save_minutes=2", "save_every=0", "eval_episodes=0")
    assert saved == [0, 2, 4, 4, 0, 4]  # one at the start and at the end, and every two minutes


def long_iteration(run):
    row = iterate(run)
    run.seconds = 60.0 * run.iteration
    return row


def test_a_run_stopped_by_a_signal_saves_and_can_go_on(unbroken, tmp_path, monkeypatch):
    directory = tmp_path / "run"

    def stop(display, record):
        if record["iteration"] == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    handler = signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patch:
        patch.setattr(ProgressDisplay, "update", stop)
        summary = run(directory, "max_iterations=4", "eval_every=2")
    assert (summary["complete"], summary["iterations"]) == (False, 3)
    assert signal.getsignal(signal.SIGTERM) is handler
    assert resume(directory)["complete"]
    assert_same_runs(unbroken, directory)


@pytest.mark.parametrize("write", range(1, 8))
def test_a_run_killed_at_any_write_goes_on(unbroken, tmp_path, monkeypatch, write):
    directory, count = tmp_path / "run", 0
    replace = Path.replace

    def die(source, target):
        nonlocal count
        count += 1
        if count == write:
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", die)
        with pytest.raises(KeyboardInterrupt):
            run(directory, "max_iterations=4", "eval_every=2", "save_every=2")
    if (directory / "checkpoint.pt").exists():
        resume(directory)
    else:
        run(directory, "max_iterations=4", "eval_every=2")
    assert_same_runs(unbroken, directory)


def test_a_run_killed_before_its_first_iteration_can_be_replaced_or_continued(unbroken, tmp_path, monkeypatch):
    directory = tmp_path / "run"

    def die(run):
        raise KeyboardInterrupt

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr("polytask.runs.train.iterate", die)
            with pytest.raises(KeyboardInterrupt):
                run(directory, "max_iterations=4", "eval_every=2")
    assert load(directory)["iteration"] == 0
    resume(directory)
    assert_same_runs(unbroken, directory)


def test_torn_lines_cost_only_themselves(tmp_path):
    directory = tmp_path / "run"
    run(directory, "max_iterations=3", "eval_episodes=0")
    first, second, third = (directory / "metrics.jsonl").read_text().splitlines()
    (directory / "metrics.jsonl").write_text(f"{first}\n{second[:40]}\n{third}\n")
    resume(directory, "max_iterations=4")
    assert [row["iteration"] for row in records(directory)] == [1, 3, 4]


def test_frames_are_counted_when_a_run_goes_on_with_another_horizon(tmp_path):
    directory = tmp_path / "run"
    run(directory, "max_iterations=2", "max_frames=1000", "eval_episodes=0", "algo.schedule=linear")
    resume(directory, "max_iterations=null", "max_frames=158", "algo.horizon=8")
    assert [row["frames"] for row in records(directory)] == [64, 128, 160]  # 4 worlds
    state = load(directory)
    assert (state["iteration"], state["frames"], state["algo"]["frames"]) == (3, 160, 160)


def test_a_checkpoint_without_frames_counts_iterations(tmp_path):
    directory = tmp_path / "run"
    run(directory, "max_iterations=2", "eval_episodes=0")
    state = load(directory)
    del state["frames"], state["algo"]["frames"], state["format"]  # as version 0.1 wrote it
    save(directory / "checkpoint.pt", state)
    resume(directory, "max_iterations=3")
    assert (load(directory)["frames"], load(directory)["algo"]["frames"]) == (192, 192)


def test_going_back_to_an_older_checkpoint_saves_it_before_the_log_is_cut(tmp_path, monkeypatch):
    directory = tmp_path / "run"
    run(directory, "max_iterations=1", "eval_episodes=0")
    shutil.copy(directory / "checkpoint.pt", directory / "first.pt")
    resume(directory, "max_iterations=2")
    with monkeypatch.context() as patch:
        patch.setattr("polytask.runs.train.Logger", None)  # the process dies before it opens the log
        with pytest.raises(TypeError):
            resume(directory / "first.pt", "max_iterations=3")
    assert load(directory)["iteration"] == 1
    resume(directory)
    assert [row["iteration"] for row in records(directory)] == [1, 2, 3]


def test_records_after_the_checkpoint_are_written_anew(unbroken, tmp_path):
    directory = tmp_path / "run"
    run(directory, "max_iterations=2", "eval_every=2")
    with (directory / "metrics.jsonl").open("a") as file:  # the run was killed after its last checkpoint
        file.write('{"iteration": 3, "frames": 192, "loss/policy": 1e9}\n{"iteration": 4, "fra')
    resume(directory, "max_iterations=4")
    assert_same_runs(unbroken, directory)


def test_continuing_elsewhere_leaves_the_first_run_alone(unbroken, tmp_path):
    before = (unbroken / "metrics.jsonl").read_bytes()
    resume(unbroken, "max_iterations=5", f"run_dir={tmp_path / 'longer'}")
    assert (unbroken / "metrics.jsonl").read_bytes() == before
    assert [row["iteration"] for row in records(tmp_path / "longer")] == [1, 2, 3, 4, 5]


def test_another_seed_gives_another_run(unbroken, tmp_path):
    run(tmp_path / "run", "max_iterations=1", "seed=1")
    assert records(tmp_path / "run")[0]["loss/value"] != records(unbroken)[0]["loss/value"]


@pytest.mark.parametrize("words", [("eval",), ("export",), ("collect", "output=data"), ("train",)])
def test_an_export_for_other_programs_is_named_as_one(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.onnx").write_bytes(b"onnx")
    assert main([*words, "checkpoint=policy.onnx"]) == 2
    line = "polytask: 'policy.onnx' is for other programs; load the run, or export it with to=safetensors\n"
    assert capsys.readouterr().err == line


def test_a_folder_of_runs_names_them(tmp_path):
    for name in ("runs/a", "runs/b", "runs/c", "runs/d", "table/x/seed-0", "empty"):
        (tmp_path / name).mkdir(parents=True)
        if name != "empty":
            (tmp_path / name / "checkpoint.pt").touch()
    for folder, end in (
        ("runs", "; name one of the runs in this folder: {0}/runs/a, {0}/runs/b, {0}/runs/c and 1 more"),
        ("table", "; name one of the runs in this folder: {0}/table/x/seed-0"),
        ("empty", ""),
    ):
        with pytest.raises(UserError) as caught:
            locate(tmp_path / folder)
        assert str(caught.value) == f"no checkpoint at '{tmp_path / folder}/checkpoint.pt'" + end.format(tmp_path)
