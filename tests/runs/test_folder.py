"""The folder of a run: its name, its one owner, and the exit codes of a run that is stopped."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from polytask.cli.main import main
from polytask.config.compose import compose
from polytask.config.schema import TrainConfig
from polytask.errors import UserError
from polytask.files.folder_lock import BusyError, FolderLock
from polytask.runs.folder import check_free, claim_folder, default_name
from polytask.runs.train import train

WORDS = ["num_envs=2", "algo.horizon=4", "net.hidden=[8]", "threads=1", "eval_episodes=0", "video=false"]
TINY = ["tasks=[reach]", *WORDS, "max_iterations=1"]


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["suite=mt10"], "mt10-ppo-mlp-seed0"),
        (["tasks=[push]", "algo=sac", "net=moore", "seed=7"], "push-sac-moore-seed7"),
        (["tasks=[push,reach,door-open]", "algo=grpo"], "3tasks-grpo-mlp-seed0"),
    ],
)
def test_the_default_name_tells_what_is_trained(words, name):
    found = default_name(compose(TrainConfig, words))
    assert re.fullmatch(rf"\d{{4}}-\d\d-\d\d_\d\d-\d\d-\d\d-{name}", found)


def test_runs_that_start_in_the_same_second_get_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("polytask.runs.folder.default_name", lambda config: "same")
    for _ in range(3):
        assert main(["train", *TINY]) == 0
    assert sorted(os.listdir("runs")) == ["same", "same-2", "same-3"]
    for name in os.listdir("runs"):
        assert len(Path("runs", name, "metrics.jsonl").read_text().splitlines()) == 1
        assert f"run_dir: runs/{name}\n" in Path("runs", name, "config.yaml").read_text()


def test_a_folder_with_a_run_is_refused(tmp_path):
    folder = tmp_path / "run"
    check_free(folder)
    folder.mkdir()
    (folder / "metrics.jsonl").touch()
    (folder / "config.yaml").write_text("a: 1")
    check_free(folder)
    (folder / "metrics.jsonl").write_text('{"iteration": 1}\n')
    with pytest.raises(UserError, match="already contains the log of a run without a checkpoint"):
        check_free(folder)
    (folder / "checkpoint.pt").touch()
    with pytest.raises(UserError, match=f"continue it with checkpoint={folder}"):
        claim_folder(folder, is_named=True)
    FolderLock(folder).take()  # the refused claim has released it


def test_the_folder_of_an_mtopt_run_is_refused(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    for log in ("", '{"iteration": 1}\n'):
        (tmp_path / "metrics.jsonl").write_text(log)
        with pytest.raises(UserError, match="contains a run of `polytask mtopt`; name another run_dir"):
            check_free(tmp_path)


def test_a_mistake_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in (["tasks=[rech]"], ["tasks=[reach]", "algo.n=3"], ["tasks=[reach]", "init_from=nowhere"]):
        for place in ([], ["run_dir=run"]):
            assert main(["train", *words, *WORDS, *place]) == 2
    assert not list(tmp_path.iterdir())


def test_an_error_releases_the_folder(tmp_path, monkeypatch):
    def fail(run):
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr("polytask.runs.train.iterate", fail)
        with pytest.raises(RuntimeError):
            train(compose(TrainConfig, [*TINY, f"run_dir={tmp_path}"]))
    with monkeypatch.context() as patch:
        patch.setattr("polytask.runs.run._build", fail)
        with pytest.raises(TypeError):
            train(compose(TrainConfig, [*TINY, f"checkpoint={tmp_path}"]))
    lock = FolderLock(tmp_path)
    lock.take()
    with pytest.raises(BusyError):
        train(compose(TrainConfig, [*TINY, f"run_dir={tmp_path}"]))
    lock.release()
    assert train(compose(TrainConfig, [*TINY, f"checkpoint={tmp_path}"])).exit_code == 0


def test_a_folder_that_cannot_be_locked_is_one_line(tmp_path, capsys):
    assert main(["train", *TINY, f"run_dir={tmp_path}"]) == 0
    capsys.readouterr()
    (tmp_path / "lock").unlink()
    (tmp_path / "lock").mkdir()
    assert main(["train", f"checkpoint={tmp_path}"]) == 2
    assert capsys.readouterr().err == f"polytask: cannot write '{tmp_path / 'lock'}': Is a directory\n"


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)]
)
def test_a_second_process_changes_nothing_and_a_signal_is_an_exit_code(tmp_path, capfd, number, code):
    folder = tmp_path / "run"
    words = [sys.executable, "-m", "polytask", "train", *TINY[:-1], "max_iterations=100000", f"run_dir={folder}"]
    first = subprocess.Popen([*words, "save_every=0"])
    deadline = time.monotonic() + 120
    while not (folder / "metrics.jsonl").exists() or not (folder / "metrics.jsonl").stat().st_size:
        assert time.monotonic() < deadline
        assert first.poll() is None
        time.sleep(0.1)
    times = [(folder / name).stat().st_mtime_ns for name in ("checkpoint.pt", "config.yaml", "lock")]
    capfd.readouterr()
    assert main(["train", f"checkpoint={folder}", "seed=1"]) == 2
    line = f"polytask: the run in '{folder}' is in use by process {first.pid}; wait for it or end it\n"
    assert line in capfd.readouterr().err
    assert main(["train", *TINY, f"run_dir={folder}"]) == 2
    assert times == [(folder / name).stat().st_mtime_ns for name in ("checkpoint.pt", "config.yaml", "lock")]
    first.send_signal(number)
    assert first.wait(timeout=60) == code
    assert "stopped after" in capfd.readouterr().out
    rows = len((folder / "metrics.jsonl").read_text().splitlines())
    assert main(["train", f"checkpoint={folder}", f"max_iterations={rows + 1}"]) == 0
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == rows + 1
