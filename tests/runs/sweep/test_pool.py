"""Several runs at once: how they start, end, fail and stop."""

import json
import os
import signal

import pytest

from polytask.errors import UserError
from polytask.runs.file_names import CHECKPOINT_FILE
from polytask.runs.provenance import RUNS_ON_DEVICE
from polytask.runs.sweep import pool
from polytask.runs.sweep.grid import settings_of
from polytask.runs.sweep.index import Index
from polytask.runs.sweep.local import Job, LocalLauncher, reason_of
from polytask.runs.sweep.plan import plan
from polytask.runs.sweep.pool import Slots, failure, run_all


class FakeProcess:
    """A run that ends after some looks at it, or when it is asked to."""

    def __init__(self, job, code, looks):
        self.job, self.code, self.looks, self.stopped_by, self.is_killed = job, code, looks, None, False

    def poll(self):
        self.looks -= 1
        folder = self.job.log.parent
        if self.stopped_by:
            (folder / CHECKPOINT_FILE).touch()
            return 128 + self.stopped_by
        if self.looks > 0:
            return None
        if self.code == 0:
            summary = {"complete": True, "success": 0.25, "evaluation": None}
            (folder / "summary.json").write_text(json.dumps(summary))
        return self.code

    def stop(self, number):
        self.stopped_by = number

    def kill(self):
        self.is_killed = True


class FakeLauncher:
    """Starts fake runs and remembers how many went on at once."""

    def __init__(self, codes=None, looks=2, on_start=lambda launcher: None):
        self.codes, self.looks, self.on_start, self.processes, self.most = codes or {}, looks, on_start, [], 0

    def start(self, job):
        name = job.log.parent.parent.name
        if self.codes.get(name) == "refused":
            raise UserError("no room")
        job.log.parent.mkdir(parents=True, exist_ok=True)
        job.log.write_text(f"{job.header}\npolytask: out of luck\n")
        self.processes.append(FakeProcess(job, self.codes.get(name, 0), self.looks))
        self.most = max(self.most, sum(each.looks > 0 for each in self.processes))
        self.on_start(self)
        return self.processes[-1]


@pytest.fixture
def items(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "LOOK_EVERY", 0.0)
    return plan(settings_of(["tasks=[reach]", "net=mlp,moore,paco"]), range(2), tmp_path, Index(tmp_path))


def states(items):
    return [item.state for item in items]


def run(items, launcher, jobs=2, **options):
    changes = []
    slots = Slots([{"PLACE": str(place)} for place in range(jobs)], **options)
    return run_all(items, launcher, slots, lambda item: changes.append((item.name, item.state))), changes


def test_as_many_runs_as_there_are_places_go_on_at_once(items):
    launcher = FakeLauncher(looks=3)
    code, changes = run(items, launcher, jobs=4)
    assert (code, states(items), launcher.most) == (0, ["done"] * 6, 4)
    assert {process.job.variables["PLACE"] for process in launcher.processes} == {"0", "1", "2", "3"}
    assert [change for change in changes if change[0] == items[0].name] == [
        (items[0].name, "running"),
        (items[0].name, "done"),
    ]
    assert [(item.success, item.measure) for item in items] == [(0.25, "training")] * 6


def test_what_is_done_is_not_started(items):
    items[0].state = items[3].state = "done"
    launcher = FakeLauncher()
    run(items, launcher)
    assert [process.job.log.parent for process in launcher.processes] == [
        item.run_dir for item in items if item not in (items[0], items[3])
    ]


def test_a_run_that_fails_does_not_keep_the_others_from_ending(items, capsys):
    code, _ = run(items, FakeLauncher(codes={"01-moore": 2, "02-paco": "refused"}))
    assert (code, states(items)) == (0, ["done", "failed", "failed"] * 2)
    assert (items[1].error, items[2].error) == ("out of luck", "no room")
    assert failure(items[1]) == f"failed: 01-moore/seed-0: out of luck (log: {items[1].log})"
    assert failure(items[1]) in capsys.readouterr().err.splitlines()


def test_a_run_without_a_summary_has_failed_whatever_its_exit_code(items):
    class Silent(FakeLauncher):
        def start(self, job):
            process = super().start(job)
            process.code = None
            process.poll = lambda: 0
            return process

    run(items, Silent())
    assert {(item.state, item.error) for item in items} == {("failed", "it ended without a result")}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_all_runs_and_starts_no_other(items, number, capsys):
    launcher = FakeLauncher(
        looks=10**6, on_start=lambda self: len(self.processes) == 2 and os.kill(os.getpid(), number)
    )
    handlers = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    code, _ = run(items, launcher)
    assert code == 128 + number
    assert [process.stopped_by for process in launcher.processes] == [number] * 2
    assert states(items) == ["interrupted"] * 2 + ["new"] * 4
    assert "stopping all runs" in capsys.readouterr().err
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == handlers


def test_no_run_starts_in_the_place_of_one_that_a_signal_has_stopped(items):
    launcher = FakeLauncher(
        looks=10**6, on_start=lambda self: len(self.processes) == 2 and os.kill(os.getpid(), signal.SIGINT)
    )
    start = launcher.start

    def slow(job):
        process = start(job)
        if len(launcher.processes) == 2:  # the second run takes some looks longer to end than the first
            poll, looks = process.poll, [None] * 5
            process.poll = lambda: looks.pop() if looks else poll()
        return process

    launcher.start = slow
    assert run(items, launcher)[0] == 130
    assert len(launcher.processes) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_all_runs_at_once(items, number, monkeypatch):
    monkeypatch.setattr("polytask.stopping.SAME", -1.0)  # the second one comes in the same moment here

    class Deaf(FakeProcess):
        def stop(self, number):
            os.kill(os.getpid(), number)

    launcher = FakeLauncher(
        looks=10**6, on_start=lambda self: len(self.processes) == 2 and os.kill(os.getpid(), number)
    )
    start = launcher.start

    def deaf(job):
        process = start(job)
        process.__class__ = Deaf
        return process

    launcher.start = deaf
    with pytest.raises(KeyboardInterrupt):
        run(items, launcher)
    assert all(process.is_killed for process in launcher.processes)
    assert "running" not in states(items)


def test_runs_on_the_cpu_share_its_cores_unless_they_name_a_number(tmp_path):
    for words, expected in ((["threads=3"], False), ([], True), (["device=cuda"], False)):
        (item,) = plan(settings_of(["tasks=[reach]", *words]), [0], tmp_path, Index(tmp_path))
        assert ("threads=5" in Slots([{}], threads=5).job(item, 0, {0}).words) is expected
        assert "threads=5" not in Slots([{}]).job(item, 0, {0}).words


@pytest.mark.parametrize(
    ("devices", "told"),
    [
        ([0, 0, 0, 0], [4, 4, 4, 4, 2, 2]),  # the last two are alone with each other
        ([0, 1, 0, 0], [3, 1, 3, 3, 1, 1]),
        ([0, 1, 0, 1, 0], [3, 2, 3, 2, 3, 1]),
        ([0] * 9, [6] * 6),  # more places than runs
        (None, [None] * 6),
    ],
)
def test_a_run_is_told_how_many_are_on_its_device_when_it_starts(items, devices, told):
    launcher = FakeLauncher()
    run(items, launcher, jobs=4 if devices is None else len(devices), devices=devices)
    numbers = [process.job.variables.get(RUNS_ON_DEVICE) for process in launcher.processes]
    assert numbers == [None if each is None else str(each) for each in told]


def test_a_run_that_starts_beside_others_is_told_of_them(items):
    launcher = FakeLauncher()
    start = launcher.start

    def slow(job):  # the first run outlives the next three
        launcher.looks = 2 if launcher.processes else 5
        return start(job)

    launcher.start = slow
    run(items[:4], launcher, devices=[0, 0])
    assert [process.job.variables[RUNS_ON_DEVICE] for process in launcher.processes] == ["2"] * 4


@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        ("note\npolytask: no such task\n", 2, "no such task"),
        ("Traceback\n  File x\nValueError: 7\n\n", 1, "ValueError: 7"),
        ("", 3, "exit code 3"),
        ("polytask: never mind\n", -9, "ended by signal SIGKILL"),
    ],
)
def test_the_reason_of_a_failure_is_the_last_error_of_this_attempt(tmp_path, text, code, reason):
    job = Job(("a=1",), tmp_path / "log.txt")
    job.log.write_text(f"{job.header}\npolytask: an older error\n{job.header}\n{text}")
    assert reason_of(job, code) == reason
    assert reason_of(Job((), tmp_path / "none"), 1) == "exit code 1, and no log"


def test_a_run_does_not_get_the_signals_of_the_terminal_and_is_killed_with_all_that_it_started(tmp_path):
    process = LocalLauncher().start(Job(("tasks=[reach]", f"run_dir={tmp_path}"), tmp_path / "log.txt"))
    pid = process._process.pid
    try:
        assert os.getpgid(pid) == pid != os.getpgid(0)
        assert process.poll() is None
    finally:
        process.kill()
    assert process.poll() == -signal.SIGKILL
    process.kill()  # has no effect on a run that has ended
