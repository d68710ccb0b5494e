"""`torchrun --nproc-per-node=2 -m polytask train ...`: what a user sees, and how it ends."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from helpers import parallel_jobs, torchrun

from polytask.runs.checkpoint import load

pytestmark = pytest.mark.slow
FAILING_RANK = Path(torchrun.__file__).with_name("failing_rank.py")
WORDS = (*parallel_jobs.WORLDS, *parallel_jobs.RUN, *parallel_jobs.ON_POLICY)


def start(folder, *words):
    return torchrun.start("-m", "polytask", "train", *WORDS, f"run_dir={folder}", *words)


def wait_for_rows(folder, count, process):
    """Wait until a run has logged some rows."""
    file, deadline = folder / "metrics.jsonl", time.monotonic() + torchrun.SECONDS
    while not file.exists() or len(file.read_text().splitlines()) < count:
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.1)


def pid_of(rank, process):
    """Return the process id of a rank: torchrun starts them in order."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return next(int(pid) for pid in children if f"RANK={rank}\0" in Path(f"/proc/{pid}/environ").read_text())


def ours(errors):
    """Return the lines with an error of polytask, and check that there is no traceback of a rank."""
    assert sum(line.startswith("Traceback") for line in errors) <= 1, "\n".join(errors)  # that of torchrun itself
    return [line for line in errors if line.startswith("polytask: ")]


def test_a_signal_stops_all_ranks_after_the_same_iteration_and_the_run_continues(tmp_path):
    process = start(tmp_path / "run", "max_iterations=100_000")
    wait_for_rows(tmp_path / "run", 2, process)
    process.send_signal(signal.SIGTERM)
    code, _, errors = torchrun.finish(process)
    assert code != 0
    assert not ours(errors)
    assert any("stopping" in line for line in errors), "\n".join(errors)
    rows = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    done = load(tmp_path / "run")["iteration"]
    assert done == len(rows) == json.loads((tmp_path / "run" / "summary.json").read_text())["iterations"]
    words = ("-m", "polytask", "train", f"checkpoint={tmp_path / 'run'}", f"max_iterations={done + 1}", "format=json")
    code, out, errors = torchrun.run(*words)
    assert code == 0, "\n".join(errors)
    result = json.loads(out)  # one object: the other rank prints nothing
    assert (result["ranks"], result["iterations"], result["complete"]) == (2, done + 1, True)
    assert any("on 2 ranks" in line for line in errors)


def test_the_end_of_one_rank_ends_all_with_one_line(tmp_path):
    process = start(tmp_path / "run", "max_iterations=100_000", "save_every=1")
    wait_for_rows(tmp_path / "run", 2, process)
    os.kill(pid_of(1, process), signal.SIGKILL)
    code, _, errors = torchrun.finish(process)
    assert code != 0
    assert ours(errors) == ["polytask: another rank has ended, so this run stops; its last checkpoint is kept"]
    assert load(tmp_path / "run")["iteration"] >= 1


def test_the_error_of_one_rank_is_the_only_line(tmp_path):
    words = (*WORDS, f"run_dir={tmp_path / 'run'}", "max_iterations=100_000")
    code, _, errors = torchrun.run(FAILING_RANK, "train", *words)
    assert code != 0
    assert ours(errors) == ["polytask: rank 1 has no memory left"]


def test_a_learner_that_diverges_is_one_line_and_a_summary(tmp_path):
    code, _, errors = torchrun.finish(start(tmp_path / "run", "max_iterations=100_000", "algo.lr=1e30"))
    assert code != 0
    (line,) = ours(errors)
    assert line.startswith("polytask: the learner diverged")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert not summary["complete"] and line.endswith(summary["reason"])


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("eval", "policy=random"), "polytask: 'eval' runs in one process, but torchrun started 2; leave it out"),
        (("train", "algo.lr=-1"), "polytask: algo.lr=-1.0"),
        (("train", "suite=mt10", "num_envs=10"), "polytask: every task needs a world on each of the 2 ranks"),
    ],
)
def test_a_mistake_is_one_line(words, line, tmp_path):
    extra = () if words[0] == "eval" else (f"run_dir={tmp_path / 'run'}",)
    code, out, errors = torchrun.run("-m", "polytask", *words, *extra)
    assert code != 0 and not out
    (found,) = ours(errors)
    assert found.startswith(line)
    assert not (tmp_path / "run").exists()
