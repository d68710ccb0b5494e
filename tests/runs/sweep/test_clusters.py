"""Runs as jobs of Ray and, through submitit, of Slurm; submitit is replaced by a module that runs jobs in a thread."""

import signal
import sys
import threading
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from polytask.config.launching import LaunchConfig
from polytask.errors import UserError
from polytask.runs.sweep import clusters
from polytask.runs.sweep.clusters import STOP_FILE, RayLauncher, SlurmLauncher, run_to_end
from polytask.runs.sweep.local import Job

TINY = ("tasks=[reach]", "num_envs=2", "episode_length=8", "algo.horizon=4", "algo.minibatch=8", "threads=1")
TINY += ("eval_episodes=0", "video=false")


def tiny_job(folder, iterations):
    return Job((*TINY, f"max_iterations={iterations}", f"run_dir={folder}"), folder / "log.txt")


def wait_for(process, seconds=180):
    deadline = time.monotonic() + seconds
    while (code := process.poll()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return code


def test_a_job_that_is_asked_to_stop_before_it_begins_does_not_begin(tmp_path, monkeypatch):
    monkeypatch.setattr(clusters, "spawn", None)  # not called
    (tmp_path / STOP_FILE).write_text("15")
    assert run_to_end(Job((), tmp_path / "log.txt")) == 143


class FakeRun:
    """The process of a run, which ends by the signal that it gets."""

    def __init__(self, code=None):
        self.code = code

    def poll(self):
        return self.code

    def send_signal(self, number):
        self.code = 128 + number


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(clusters, "LOOK_EVERY", 0.01)


def test_a_file_is_a_signal_to_the_run_wherever_it_is(tmp_path, monkeypatch, quick):
    monkeypatch.setattr(clusters, "spawn", lambda job: FakeRun())
    codes = []
    thread = threading.Thread(target=lambda: codes.append(run_to_end(Job((), tmp_path / "log.txt"))))
    thread.start()
    thread.join(timeout=0.1)
    assert thread.is_alive()
    (tmp_path / STOP_FILE).write_text("2")
    thread.join()
    assert codes == [130]


# Slurm


class FakeSubmitted:
    """A job of submitit, which begins when the test says so."""

    def __init__(self, function, job):
        self.call, self.state, self.code, self.error = lambda: function(job), "PENDING", None, None

    def begin(self):
        self.state = "RUNNING"
        self.code = self.call()
        self.state = "COMPLETED"

    def done(self):
        return self.state in ("COMPLETED", "CANCELLED", "FAILED")

    def result(self):
        if self.state != "COMPLETED":
            raise RuntimeError(f"log\nthe job is {self.state}")
        return self.code

    def cancel(self):
        self.state = "CANCELLED"


@pytest.fixture
def submitit(monkeypatch):
    made = SimpleNamespace(options={}, submitted=[])

    class AutoExecutor:
        def __init__(self, folder, cluster):
            if cluster == "none":
                raise RuntimeError("Could not detect srun\nat all")
            made.folder, made.cluster = folder, cluster

        def update_parameters(self, **options):
            if "typo" in options:
                raise NameError("Unknown argument 'typo'")
            made.options = options

        def submit(self, function, job):
            made.submitted.append(FakeSubmitted(function, job))
            return made.submitted[-1]

    module = ModuleType("submitit")
    module.AutoExecutor = AutoExecutor
    module.__spec__ = SimpleNamespace(name="submitit")
    monkeypatch.setitem(sys.modules, "submitit", module)
    return made


def slurm(*options):
    return LaunchConfig(launcher="slurm", gpus=0.5, cpus=3, slurm=list(options))


def test_slurm_gets_the_resources_and_options_of_a_run(tmp_path, submitit):
    SlurmLauncher(slurm("slurm_partition=gpu", "timeout_min=90"), tmp_path)
    assert (submitit.folder, submitit.cluster) == (tmp_path / "slurm", "slurm")
    wanted = {"cpus_per_task": 3, "gpus_per_node": 1, "slurm_partition": "gpu", "timeout_min": 90, "name": "polytask"}
    assert submitit.options == wanted


def test_a_job_of_slurm_gives_the_exit_code_of_its_run(tmp_path, submitit, monkeypatch, quick):
    monkeypatch.setattr(clusters, "spawn", lambda job: FakeRun(code=2))
    process = SlurmLauncher(slurm(), tmp_path).start(Job((), tmp_path / "log.txt"))
    assert process.poll() is None
    submitit.submitted[0].begin()
    assert process.poll() == 2


def test_a_job_that_slurm_lost_has_failed_with_a_line_in_the_log(tmp_path, submitit):
    process = SlurmLauncher(slurm(), tmp_path).start(Job((), tmp_path / "log.txt"))
    submitit.submitted[0].state = "FAILED"
    assert process.poll() == 1
    assert (tmp_path / "log.txt").read_text() == "polytask: the cluster lost the run: the job is FAILED\n"


def test_a_waiting_job_is_taken_from_the_queue_and_one_that_runs_is_asked_to_save(tmp_path, submitit):
    launcher = SlurmLauncher(slurm(), tmp_path)
    waiting, running = (launcher.start(Job((), tmp_path / name / "log.txt")) for name in "ab")
    submitit.submitted[1].state = "RUNNING"
    for process, name in ((waiting, "a"), (running, "b")):
        process.stop(signal.SIGTERM)
        assert (tmp_path / name / STOP_FILE).read_text() == "15"
    assert [each.state for each in submitit.submitted] == ["CANCELLED", "RUNNING"]
    assert (waiting.poll(), running.poll()) == (143, None)
    running.kill()
    assert submitit.submitted[1].state == "CANCELLED"


def test_an_old_request_to_stop_does_not_stop_the_next_attempt(tmp_path, submitit):
    (tmp_path / STOP_FILE).write_text("15")
    SlurmLauncher(slurm(), tmp_path).start(Job((), tmp_path / "log.txt"))
    assert not (tmp_path / STOP_FILE).exists()


@pytest.mark.parametrize(
    ("option", "line"),
    [
        ("cluster=none", "submitit refuses launcher=slurm: Could not detect srun"),
        ("typo=1", "submitit refuses launcher=slurm: Unknown argument 'typo'"),
        ("gpu", "slurm: 'gpu' is not of the form option=value"),
    ],
)
def test_wrong_options_of_slurm_are_one_line(tmp_path, submitit, option, line):
    with pytest.raises(UserError, match=line):
        SlurmLauncher(slurm(option), tmp_path)


@pytest.mark.parametrize(
    ("name", "launcher"), [("ray", RayLauncher), ("submitit", lambda one: SlurmLauncher(one, "x"))]
)
def test_a_missing_package_is_one_line(name, launcher, monkeypatch):
    monkeypatch.setattr(clusters, "find_spec", lambda module: None)
    extra = {"ray": "ray", "submitit": "slurm"}[name]
    with pytest.raises(UserError, match=rf"launcher={extra} needs an extra: pip install 'polytask\[{extra}\]'"):
        launcher(LaunchConfig())


def test_submitit_itself_runs_a_job(tmp_path):
    pytest.importorskip("submitit")
    config = LaunchConfig(launcher="slurm", gpus=0.0, cpus=1, slurm=["cluster=local"])
    process = SlurmLauncher(config, tmp_path).start(tiny_job(tmp_path / "run", 1))
    assert wait_for(process) == 0
    assert (tmp_path / "run" / "summary.json").exists()


# Ray


@pytest.fixture(scope="module")
def ray_launcher():
    pytest.importorskip("ray")
    launcher = RayLauncher(LaunchConfig(launcher="ray", gpus=0.0, cpus=1))
    yield launcher
    launcher.close()


@pytest.mark.slow
def test_ray_runs_a_job_to_its_end_and_stops_another(tmp_path, ray_launcher):
    short = ray_launcher.start(tiny_job(tmp_path / "short", 1))
    long = ray_launcher.start(tiny_job(tmp_path / "long", 100_000))
    assert wait_for(short) == 0
    assert (tmp_path / "short" / "summary.json").exists()
    deadline = time.monotonic() + 120
    while not (tmp_path / "long" / "metrics.jsonl").exists():
        assert time.monotonic() < deadline
        assert long.poll() is None
        time.sleep(0.1)
    long.stop(signal.SIGTERM)
    assert wait_for(long) == 143
    assert (tmp_path / "long" / "checkpoint.pt").exists()


def test_a_run_that_is_too_large_for_ray_is_one_line(ray_launcher):
    with pytest.raises(UserError, match=r"a run needs 1000 GPUs \(gpus=\), but Ray has \d+"):
        RayLauncher(LaunchConfig(launcher="ray", gpus=1000.0))


def test_relative_paths_start_from_the_folder_of_the_sweep(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    job = Job(("tasks=[rech]", "run_dir=run"), Path("run/log.txt"))
    monkeypatch.chdir(tmp_path)  # as on another machine of the cluster
    assert run_to_end(job) == 2
    assert "polytask: unknown task 'rech'" in (tmp_path / "here" / "run" / "log.txt").read_text()
