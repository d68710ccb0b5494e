"""Compiling kernels in worker processes before an environment is built, on Warp's CPU device."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from polytask.envs import make, warmup, warmup_worker
from polytask.envs.domain import EnvConfig
from polytask.envs.make import resolve
from polytask.envs.options import EnvOptions
from polytask.envs.warmup import Compilation, Job, compile_kernels, jobs_of, modules_of, prepare
from polytask.errors import UserError
from polytask.files.folder_lock import one_at_a_time
from polytask.sim import AutoSim, WarpSim
from polytask.sim.kernels import Variant, cache_folder

# Tests run in several processes, which share the cache. Kernels do not depend on this number, but marks do.
TOLERANCE = 1e-4 + 1e-10 * os.getpid()


def config_of(*tasks: str, **options: object) -> EnvConfig:
    sim = WarpSim(collision_tolerance=TOLERANCE)
    return resolve(EnvOptions(**{"tasks": list(tasks), "sim": sim, "threads": 1, **options}))


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    """Return the job of one batch that was never prepared, and allow one worker."""
    monkeypatch.setattr(warmup, "_worker_count", lambda device: 1)
    (job,) = jobs_of(config_of("reach"))
    job.marker.unlink(missing_ok=True)
    yield job
    job.marker.unlink(missing_ok=True)


@pytest.fixture
def empty_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no module be in the cache when this process looks. Workers find those that are."""
    monkeypatch.setattr("polytask.sim.kernels.Variant.is_cached", False)


def test_a_worker_compiles_every_module_of_a_batch_once_per_machine(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = {variant.folder for variant in modules_of(job.config)}
    monkeypatch.setattr(warmup, "_missing", lambda found: {"some"} if found else set())
    done = compile_kernels(config_of("reach"))
    assert (done.batches, done.modules, done.workers) == (1, len(needed), 1)
    assert set(json.loads(job.marker.read_text())) == needed
    assert all((cache_folder() / folder).is_dir() for folder in needed)
    again = compile_kernels(config_of("reach"))
    assert (again.batches, again.modules, again.compiled, again.workers) == (0, 0, 0, 0)


def test_no_worker_starts_if_the_cache_has_everything(job: Job) -> None:
    for variant in modules_of(job.config):
        variant.load()
    done = compile_kernels(config_of("reach"))
    assert (done.batches, done.workers, done.compiled) == (1, 0, 0)
    assert job.is_complete


def test_a_second_process_waits_for_the_first_and_then_finds_nothing_to_do(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warmup, "_share_work", None)  # not called: the first process has compiled everything
    results: list[Compilation] = []
    job.marker.parent.mkdir(exist_ok=True)
    thread = threading.Thread(target=lambda: results.append(compile_kernels(config_of("reach"))))
    with one_at_a_time(job.marker.parent / warmup.LOCK_FILE):
        thread.start()
        thread.join(timeout=0.5)
        assert thread.is_alive()
        job.marker.write_text(json.dumps(["polytask"]))  # the first process is done
    thread.join()
    assert (results[0].batches, results[0].workers) == (0, 0)


def test_few_modules_are_left_to_the_environment(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warmup, "_missing", lambda found: {"one", "two", "three"})
    monkeypatch.setattr(warmup, "_share_work", None)  # not called
    assert compile_kernels(config_of("reach"), worth_it=4).workers == 0


def test_a_batch_whose_modules_were_deleted_is_not_complete(job: Job) -> None:
    job.marker.parent.mkdir(exist_ok=True)
    job.marker.write_text(json.dumps(["polytask"]))  # a folder that the cache has
    assert job.is_complete
    for damaged in ('["polytask", "wp_deleted"]', "[", "3"):
        job.marker.write_text(damaged)
        assert not job.is_complete


def test_each_batch_is_a_job() -> None:
    jobs = jobs_of(config_of("reach", "drawer-open", "push", "drawer-close"))
    assert [job.config.options.tasks for job in jobs] == [["reach", "push"], ["drawer-open", "drawer-close"]]
    assert len(jobs_of(config_of("poles", "side-slopes"))) == 1


def test_a_job_depends_on_what_kernels_depend_on(job: Job) -> None:
    same = (
        config_of("push"),
        config_of("reach", sim=AutoSim(name="warp", collision_tolerance=TOLERANCE)),
        config_of("reach", seed=7, num_envs=5),
    )
    other = (
        config_of("reach", robot="panda"),
        config_of("reach", sim=WarpSim(constraints_per_world=99, collision_tolerance=TOLERANCE)),
    )
    assert {each.marker for config in same for each in jobs_of(config)} <= {job.marker}
    assert all(each.marker != job.marker for config in other for each in jobs_of(config))


def test_workers_that_fail_are_one_line_and_leave_no_mark(
    job: Job, empty_cache: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(warmup, "sys", SimpleNamespace(executable="/bin/false", path=[]))
    assert compile_kernels(config_of("reach")).compiled == 0
    err = capsys.readouterr().err
    assert err == "kernels could not all be compiled in parallel; the rest are compiled one by one\n"
    assert not job.marker.exists()


def test_an_environment_can_do_without_workers(
    job: Job, empty_cache: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(warmup, "sys", SimpleNamespace(executable="/nowhere/python", path=[]))
    prepare(config_of("reach"))
    err = capsys.readouterr().err
    assert err.startswith("kernels could not be compiled in parallel ([Errno 2]")
    assert err.count("\n") == 1


def test_a_worker_leaves_what_others_have_claimed(job: Job, tmp_path: Path) -> None:
    (tmp_path / warmup.JOBS_FILE).write_text(json.dumps([job.words()]))
    names = [variant.folder for variant in modules_of(job.config)]
    for name in names[1:]:
        (tmp_path / name).touch()
    warmup_worker.main(tmp_path, index=5)
    assert [path.name for path in tmp_path.glob(f"*{warmup.DONE}")] == [f"{names[0]}{warmup.DONE}"]


def test_a_worker_does_not_load_what_the_cache_has(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [variant.folder for variant in modules_of(job.config)]
    monkeypatch.setattr(Variant, "is_cached", property(lambda variant: variant.folder != names[1]))
    loaded: list[str] = []
    monkeypatch.setattr(Variant, "load", lambda variant: loaded.append(variant.folder))
    (tmp_path / warmup.JOBS_FILE).write_text(json.dumps([job.words()]))
    warmup_worker.main(tmp_path, index=0)
    assert loaded == names[1:2]
    assert len(list(tmp_path.glob(f"*{warmup.DONE}"))) == len(names)


def test_a_job_that_fails_does_not_keep_a_worker_from_the_others(job: Job, tmp_path: Path) -> None:
    unknown = {**job.words(), "tasks": ["of-a-plug-in"]}
    (tmp_path / warmup.JOBS_FILE).write_text(json.dumps([unknown, job.words()]))
    with pytest.raises(UserError, match="unknown task 'of-a-plug-in'"):
        warmup_worker.main(tmp_path, index=0)
    assert len(list(tmp_path.glob(f"*{warmup.DONE}"))) == len(modules_of(job.config))


def test_only_a_gpu_is_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[str] = []
    monkeypatch.setattr(make, "prepare", lambda config: prepared.append(config.device.type))
    monkeypatch.setattr(make, "MultiTaskEnv", lambda config, copy: config)
    monkeypatch.setattr(make, "check_device", torch.device)
    for device, sim in (("cpu", "auto"), ("cpu", "warp"), ("cuda", "auto")):
        make.make(tasks=["reach"], device=device, sim=sim)
    assert prepared == ["cuda"]


def test_nothing_to_do_is_a_compilation_of_nothing(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warmup, "jobs_of", lambda config: [])
    done = compile_kernels(job.config)
    assert done == Compilation(0, 0, 0, 0, done.seconds)
