"""Real signals to real processes: a word, an exit code, and a folder that continues exactly."""

import json
import os
import signal
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest
from helpers.label_page import episode
from helpers.tiny_run import tiny

from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.roles import Grader
from polytask.mtopt.runtime.folder import RunFolder
from polytask.mtopt.runtime.local import LocalRuntime
from polytask.mtopt.store import EpisodeStore


def start(*words):
    command = [sys.executable, "-m", "polytask", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(process, number):
    """Send a signal, and return exit code, stdout and the rest of stderr."""
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def test_a_run_that_is_stopped_says_so_and_continues_exactly(tmp_path, finished_run):
    folder = RunFolder(tmp_path)
    folder.begin(tiny(tmp_path))
    folder.close()
    codes = []
    for number in (signal.SIGTERM, signal.SIGINT):
        process = start("mtopt", "run", f"run_dir={tmp_path}", "format=json")
        assert process.stderr.readline().startswith("round 0  "), "a job is done"
        code, out, err = end(process, number)
        assert "stopping after this job; repeat to stop at once" in err
        assert "Traceback" not in err
        jobs = RunFolder(tmp_path).require()["jobs"]
        assert json.loads(out) == {"stopped": True, "jobs": jobs, "run_dir": str(tmp_path)}
        codes.append(code)
    assert codes == [143, 130]
    runtime = LocalRuntime(tiny(tmp_path), lambda line: None)
    evaluation = runtime.run()
    runtime.close()
    state, whole = RunFolder(tmp_path).require(), RunFolder(finished_run).require()
    assert evaluation.plain() == whole["evaluation"]
    assert state["controller"] == whole["controller"]


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_signal_ends_the_labelling_page_with_its_result(tmp_path, number):
    with EpisodeStore(tmp_path, StoreConfig(fsync=False)).writer("test") as writer:
        writer.append(episode(np.random.default_rng(0)))
    process = start("label", f"run_dir={tmp_path}", "port=0", "format=json")
    assert process.stderr.readline().startswith("labelling page: http://127.0.0.1:")
    code, out, err = end(process, number)
    assert (code, json.loads(out), err) == (0, {"labels": {}}, "")


def stop_after(count):
    """Return a stand-in for the received signals: false `count` times, then true."""

    class Stops(list):
        def __bool__(self):
            nonlocal count
            count -= 1
            return count < 0

    return Stops([signal.SIGTERM])


def test_collecting_and_training_stop_between_their_steps(tmp_path):
    runtime = LocalRuntime(tiny(tmp_path), lambda line: None)
    assert runtime.collect(100, stop_after(2))["added"] == 8, "two sequences of four"
    runtime.run()
    before = runtime.controller.updates
    stops = stop_after(3)  # the grading asks twice
    assert runtime.train(100, stops)["updates"] == before + 2
    runtime.close()


def answer_with(monkeypatch, received):
    """Let commands find these signals."""
    monkeypatch.setattr("polytask.mtopt.commands.stop_requests", lambda step: nullcontext(received))


def test_a_stopped_relabelling_is_continued_by_the_same_command(call, run_copy, monkeypatch):
    received = [signal.SIGTERM]
    answer_with(monkeypatch, received)
    before = sorted((run_copy / "detectors").iterdir())
    code, out, _ = call("mtopt", "relabel", f"run_dir={run_copy}", "train=true")
    assert (code, sorted((run_copy / "detectors").iterdir())) == (143, before)
    assert "the run is unchanged" in out
    code, out, _ = call("mtopt", "relabel", f"run_dir={run_copy}", "detector=run-1")
    assert code == 143 and f"continue: polytask mtopt relabel run_dir={run_copy} detector=run-1" in out.replace(
        "\n", " "
    )
    received.clear()
    assert call("mtopt", "relabel", f"run_dir={run_copy}", "detector=run-1")[0] == 0


def test_a_signal_in_the_last_step_is_no_stop(call, run_copy, monkeypatch):
    answer_with(monkeypatch, stop_after(1))  # one step of the grader takes all episodes
    code, out, _ = call("mtopt", "relabel", f"run_dir={run_copy}", "detector=run-1")
    assert (code, "stopped" in out) == (0, False)
    answer_with(monkeypatch, [signal.SIGTERM])
    assert call("mtopt", "collect", f"run_dir={run_copy}", "collector.episodes=0")[0] == 0, "nothing is left to do"
    assert call("mtopt", "collect", f"run_dir={run_copy}", "collector.episodes=1")[0] == 143
    assert call("mtopt", "train", f"run_dir={run_copy}", "trainer.updates=2")[0] == 143
    answer_with(monkeypatch, stop_after(2))  # asked once before grading and once before the updates
    monkeypatch.setattr(Grader, "_read", lambda self, *span: None)
    assert call("mtopt", "train", f"run_dir={run_copy}", "trainer.updates=2")[0] == 0


def test_a_stop_ends_the_grading_before_the_updates(run_copy, monkeypatch):
    monkeypatch.setattr(Grader, "_read", lambda self, *span: pytest.fail("graded after a stop"))
    runtime = LocalRuntime(RunFolder(run_copy).config(), lambda line: None, is_plan=False)
    assert runtime.train(2, [signal.SIGTERM]) == {}
    assert runtime.updates_left == 2
    runtime.close()
