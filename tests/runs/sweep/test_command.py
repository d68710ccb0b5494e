"""`polytask sweep`: real runs in processes of their own, which are skipped, continued, stopped and compared."""

import json
import shlex
import signal
import subprocess
import sys
import time

import pytest

from polytask.cli.main import main
from polytask.config.launching import LaunchConfig, SweepConfig
from polytask.errors import UserError
from polytask.files.folder_lock import BusyError, FolderLock
from polytask.runs.file_names import METRICS_FILE
from polytask.runs.provenance import RUNS_ON_DEVICE
from polytask.runs.sweep import command, slots
from polytask.runs.sweep.command import sweep
from polytask.runs.sweep.slots import slots_of

TINY = ["tasks=[reach,drawer-close]", "num_envs=4", "episode_length=8", "algo.horizon=4", "algo.minibatch=8"]
TINY += ["eval_episodes=0", "video=false"]


def test_dry_run_prints_commands_that_the_shell_reads_back_and_writes_nothing(tmp_path):
    output = tmp_path / "sweep"
    config = SweepConfig(grid=["preset=cpu_demo", "tasks=[push]"], output=str(output), dry_run=True, first_seed=42)
    result = sweep(config)
    run_dir = output / "00-cpu_demo" / "seed-42"
    expected = ["polytask", "train", "preset=cpu_demo", "tasks=[push]", "seed=42", f"run_dir={run_dir}"]
    assert [shlex.split(line) for line in result.lines] == [expected]
    assert result.payload["commands"] == result.lines
    assert not list(tmp_path.iterdir())


def test_runs_get_the_plug_ins_of_the_sweep(tmp_path):
    config = SweepConfig(grid=["tasks=[push]"], output=str(tmp_path), dry_run=True, plugins=["one.py", "two"])
    (line,) = sweep(config).lines
    assert shlex.split(line)[2] == "plugins=[one.py,two]"


def test_runs_are_compared_skipped_the_second_time_and_failures_are_told(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["sweep", *TINY, "max_iterations=3", "init_from=null,nowhere", "jobs=2", "output=table", "format=json"]
    assert main(words) == 2
    out, err = capsys.readouterr()
    result = json.loads(out)
    failed = "failed: 01-nowhere/seed-0: no checkpoint at 'nowhere' (log: table/01-nowhere/seed-0/log.txt)"
    assert failed in err.splitlines()
    assert [run["state"] for run in result["runs"]] == ["done", "failed"]
    assert len(result["report"]["settings"]) == 1
    index = json.loads((tmp_path / "table/index.json").read_text())
    assert list(index["settings"]) == ["00-init_fromnull", "01-nowhere"]
    assert index["settings"]["00-init_fromnull"]["config"]["num_envs"] == 4
    assert {name: run["state"] for name, run in index["runs"].items()} == {
        "00-init_fromnull/seed-0": "done",
        "01-nowhere/seed-0": "failed",
    }
    log = tmp_path / "table/00-init_fromnull/seed-0/log.txt"
    assert log.read_text().startswith("$ polytask train tasks=[reach,drawer-close]")
    assert json.loads((log.parent / "summary.json").read_text())["runs_on_device"] == 2
    written = log.stat().st_mtime_ns
    assert main([word.replace("null,nowhere", "null") for word in words]) == 0
    (again,) = json.loads(capsys.readouterr().out)["runs"]
    assert (again["run_dir"], again["state"]) == ("table/00-init_fromnull/seed-0", "done")
    assert log.stat().st_mtime_ns == written
    index = (tmp_path / "table/index.json").read_bytes()
    assert main([*words, "train=false"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [run["state"] for run in found["runs"]] == ["done", "new"]
    assert len(found["report"]["settings"]) == 1
    assert (tmp_path / "table/index.json").read_bytes() == index


def wait_until(is_true, process=None, seconds=180):
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline
        assert process is None or process.poll() is None
        time.sleep(0.1)


def is_free(folder):
    lock = FolderLock(folder)
    try:
        lock.take()
    except BusyError:
        return False
    lock.release()
    return True


def rows_of(folder):
    path = folder / METRICS_FILE
    return path.read_text().splitlines() if path.exists() else []


def test_a_killed_sweep_leaves_no_run_behind_and_goes_on_until_a_signal(tmp_path):
    words = [sys.executable, "-m", "polytask", "sweep", *TINY, "max_iterations=100000", "grads=mean,pcgrad", "jobs=2"]
    words.append(f"output={tmp_path}")
    folders = [tmp_path / "00-mean" / "seed-0", tmp_path / "01-pcgrad" / "seed-0"]
    first = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    wait_until(lambda: all(len(rows_of(folder)) > 2 for folder in folders), first)
    first.kill()
    assert first.wait() == -signal.SIGKILL
    wait_until(lambda: all(is_free(folder) for folder in folders))
    before = [len(rows_of(folder)) for folder in folders]
    second = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: all(len(rows_of(folder)) > rows for folder, rows in zip(folders, before, strict=True)), second)
    second.send_signal(signal.SIGTERM)
    out, err = second.communicate(timeout=120)
    assert second.returncode == 143
    assert "2 of 2 runs are not complete; the same command continues them" in out
    assert "stopping all runs after this iteration" in err
    for folder in folders:
        assert is_free(folder)
        iterations = [json.loads(row)["iteration"] for row in rows_of(folder)]
        assert iterations == list(range(1, len(iterations) + 1))
        assert f"checkpoint={folder}" in (folder / "log.txt").read_text()
    runs = json.loads((tmp_path / "index.json").read_text())["runs"]
    assert [run["state"] for run in runs.values()] == ["interrupted"] * 2


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"grid": None}, "name what to train"),
        ({"devices": [0]}, r"devices=\[0\] chooses among GPUs, but device=cpu; give device=cuda"),
        ({"grid": ["num_envs=3"]}, "num_envs=3 is too few for 10 tasks"),
        ({"grid": ["device=cuda:99"]}, "device 'cuda:99' does not exist"),
        ({"grid": ["max_frames=null"]}, "set max_frames or max_iterations"),
    ],
)
def test_mistakes_are_found_before_anything_starts(tmp_path, monkeypatch, changed, line):
    monkeypatch.setattr(command, "run_all", None)  # not called
    config = SweepConfig(**{"grid": ["tasks=[reach]"], "output": str(tmp_path / "sweep"), **changed})
    with pytest.raises(UserError, match=line):
        sweep(config)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["seeds=0"], "seeds=0 is not valid"),
        (["jobs=0"], "jobs=0 is not valid"),
        (["devices=[0,0]"], "names a GPU twice"),
        (["devices=[0]", "launcher=ray"], "devices applies only with launcher=local"),
        (["slurm=[a=b]"], "slurm applies only with launcher=slurm"),
        (["ray_address=auto", "launcher=slurm"], "ray_address applies only with launcher=ray"),
        (["launcher=slrum"], "launcher=slrum is not valid; did you mean 'slurm'?"),
        (["first_seed=4294967295", "seeds=2"], "is too large for 2 seeds"),
    ],
)
def test_wrong_keys_of_the_sweep_are_one_line(words, line, capsys):
    assert main(["sweep", "tasks=[reach]", *words]) == 2
    assert line in capsys.readouterr().err


def test_two_sweeps_do_not_use_one_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "run_all", None)
    lock = FolderLock(tmp_path)
    lock.take()
    with pytest.raises(BusyError, match="in use by process"):
        sweep(SweepConfig(grid=["tasks=[reach]"], output=str(tmp_path)))
    lock.release()


def test_runs_are_spread_over_the_gpus_that_this_process_may_use(monkeypatch):
    monkeypatch.delenv("TORCHINDUCTOR_COMPILE_THREADS", raising=False)
    monkeypatch.setattr(slots.os, "sched_getaffinity", lambda process: range(16))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    several = slots_of(LaunchConfig(jobs=3, devices=[0, 1]), 9)
    assert [each["CUDA_VISIBLE_DEVICES"] for each in several.variables] == ["4", "7", "4"]
    assert ({each["TORCHINDUCTOR_COMPILE_THREADS"] for each in several.variables}, several.threads) == ({"5"}, 5)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert [each["CUDA_VISIBLE_DEVICES"] for each in slots_of(LaunchConfig(devices=[2, 3]), 9).variables] == ["2", "3"]
    alone = slots_of(LaunchConfig(), 9)
    assert (list(alone.variables), alone.threads, alone.devices) == ([{}], None, [0])


@pytest.mark.parametrize(
    ("waiting", "config", "devices"),
    [
        (9, LaunchConfig(jobs=3, devices=[2, 5]), [0, 1, 0]),
        (9, LaunchConfig(jobs=4), [0] * 4),
        (2, LaunchConfig(jobs=4), [0] * 2),  # no more runs are left
    ],
)
def test_places_have_devices_so_that_runs_can_be_told_how_many_share_theirs(waiting, config, devices, monkeypatch):
    assert slots_of(config, waiting).devices == devices
    monkeypatch.setenv(RUNS_ON_DEVICE, "8")  # two sweeps at once: only the user knows
    assert slots_of(config, waiting).devices is None


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (LaunchConfig(jobs=2, launcher="ray", gpus=0.25), "4"),
        (LaunchConfig(jobs=2, launcher="ray", gpus=0.0), None),
        (LaunchConfig(jobs=2, launcher="slurm", gpus=2.0), "1"),
    ],
)
def test_runs_on_a_cluster_are_told_how_many_share_a_gpu_at_most(config, told, monkeypatch):
    places = slots_of(config, 9)
    assert ([each.get(RUNS_ON_DEVICE) for each in places.variables], places.devices) == ([told] * 2, None)
    monkeypatch.setenv(RUNS_ON_DEVICE, "8")
    assert list(slots_of(config, 9).variables) == [{}] * 2


@pytest.mark.parametrize(
    ("jobs", "devices", "chosen", "expected"),
    [
        (4, None, "32", "8"),
        (5, [0, 1], "32", "10"),
        (2, [0, 1], "32", None),
        (40, None, "32", "1"),
        (4, None, "2", None),
    ],
)
def test_runs_on_one_gpu_share_its_queues_unless_the_user_has_chosen(monkeypatch, jobs, devices, chosen, expected):
    monkeypatch.setenv("CUDA_DEVICE_MAX_CONNECTIONS", chosen)
    places = slots_of(LaunchConfig(jobs=jobs, devices=devices), 99).variables
    assert {each.get("CUDA_DEVICE_MAX_CONNECTIONS") for each in places} == {expected}
