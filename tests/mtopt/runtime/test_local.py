"""A whole run in one process: it repeats exactly, and a kill at any moment does not change its result."""

import json
import os
import shutil
from contextlib import closing

import pytest
import torch
from helpers.tiny_run import tiny

from polytask.errors import UserError
from polytask.files.folder_lock import BusyError
from polytask.mtopt.detector.folder import choose, in_use
from polytask.mtopt.records import Label
from polytask.mtopt.roles import Evaluator, Job, Trainer
from polytask.mtopt.runtime.checks import prepared
from polytask.mtopt.runtime.folder import RunFolder
from polytask.mtopt.runtime.local import LocalRuntime
from polytask.mtopt.store import EpisodeStore

pytest.importorskip("fastapi")


class Killed(Exception):
    """Stands in for a signal."""


def contents(root):
    """Read the results of a run: episodes, labels, counts, weights."""
    store = EpisodeStore(root)
    rows = [(row.id, row.task, row.policy, row.seed, row.length) for row in store.rows()]
    labels = sorted((one.episode, one.task, one.source, one.value) for one in store.labels())
    sound = store.check(deep=True).is_sound
    store.close()
    state = torch.load(root / "learner.pt", weights_only=True)
    weights = {name: value.sum().item() for name, value in state["learner"]["net"].items()}
    run = json.loads((root / "run.json").read_text())
    del run["config"]
    return {"rows": rows, "labels": labels, "sound": sound, "weights": weights, "run": run}


def whole_run(root):
    runtime = LocalRuntime(tiny(root), lambda line: None)
    evaluation = runtime.run()
    runtime.close()
    return evaluation


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    root = tmp_path_factory.mktemp("whole")
    return root, whole_run(root)


def test_a_run_does_everything_in_order(finished):
    root, evaluation = finished
    assert [row.task for row in evaluation.tasks] == ["lift-any", "lift-can", "place-any"]
    found = contents(root)
    assert found["sound"]
    assert len(found["rows"]) == 12
    assert {row[2] for row in found["rows"][:8]} == {"scripted-pick", "scripted-place"}
    assert any(row[2].startswith("q:3") for row in found["rows"][8:]), "the weights after four updates"
    kinds = [record["kind"] for record in RunFolder(root).records()]
    assert kinds == [
        *("collect", "collect", "label", "detector", "grade", "train", "train", "evaluate"),
        *("collect", "label", "detector", "grade", "train", "evaluate"),
    ]
    sources = {label[2] for label in found["labels"]}
    assert sources == {"oracle", "detector:run-2"}, "verdicts of detectors that are no longer used are removed"
    trained = [record for record in RunFolder(root).records() if record["kind"] == "train"]
    assert [record["updates"] for record in trained] == [2, 4, 6]
    assert [record["detector"] for record in trained] == ["run-1", "run-1", "run-2"]
    assert all(record["lag/targets"] == 0 for record in trained)
    assert trained[0]["scripted"] == 1


def test_a_finished_run_has_nothing_left_to_do(finished):
    root, evaluation = finished
    before = contents(root)
    assert whole_run(root) == evaluation
    assert contents(root) == before


def test_a_run_that_is_killed_again_and_again_ends_the_same(finished, tmp_path, monkeypatch):
    """Kill it once in every job, after its work and before its state is saved."""
    log, killed = LocalRuntime._log, set()

    def die_or_log(self, job, *arguments):
        if job not in killed:
            killed.add(job)
            raise Killed
        log(self, job, *arguments)

    monkeypatch.setattr(LocalRuntime, "_log", die_or_log)
    for _ in range(20):
        runtime = LocalRuntime(tiny(tmp_path), lambda line: None)
        try:
            runtime.run()
            break
        except Killed:
            pass
        finally:
            runtime.close()
    assert len(killed) == 14
    assert contents(tmp_path) == contents(finished[0])


def test_collecting_and_training_alone_add_to_the_run(tmp_path):
    runtime = LocalRuntime(tiny(tmp_path), lambda line: None)
    assert runtime.collect(3) == {"episodes": 4.0, "added": 4.0}  # four at a time
    assert runtime.collect(4) == {"episodes": 8.0, "added": 4.0}
    assert runtime.controller.phase == "label", "the first round has its episodes"
    with pytest.raises(UserError, match="no episode with a verdict"):
        runtime.train(2)
    runtime.close()
    runtime = LocalRuntime(tiny(tmp_path), lambda line: None)
    assert runtime.controller.phase == "label"
    runtime.run()
    updates = runtime.train(3)["updates"]
    runtime.close()
    assert updates == 9


@pytest.mark.parametrize("keep", [0, 2])
def test_the_fewest_weights_that_may_be_kept_outlive_a_kill(finished, tmp_path, monkeypatch, keep):
    """Kill it between publishing a version and saving the state that goes with it."""
    config = tiny(tmp_path)
    config.trainer.keep = keep
    save, killed = Trainer.save, []

    def die_or_save(self):
        if len(killed) < 3:
            killed.append(self.version)
            raise Killed
        save(self)

    monkeypatch.setattr(Trainer, "save", die_or_save)
    for _ in range(4):
        runtime = LocalRuntime(prepared(config), lambda line: None)
        try:
            runtime.run()
        except Killed:
            pass
        finally:
            runtime.close()
    assert killed == [2, 2, 2]
    assert contents(tmp_path) == contents(finished[0])


def test_two_processes_cannot_have_one_run(tmp_path):
    runtime = LocalRuntime(tiny(tmp_path), lambda line: None)
    with pytest.raises(BusyError, match=f"is in use by process {os.getpid()}; wait for it or end it"):
        LocalRuntime(tiny(tmp_path), lambda line: None)
    runtime.close()
    LocalRuntime(tiny(tmp_path), lambda line: None).close()


def test_training_uses_the_detector_in_use(finished, tmp_path):
    shutil.copytree(finished[0], tmp_path / "copy")
    config = tiny(tmp_path / "copy")
    assert in_use(config.detectors) == "run-2", "what the run trained last"
    choose(config.detectors, "run-1")
    runtime = LocalRuntime(config, lambda line: None)
    runtime.train(2)
    runtime.close()
    assert RunFolder(config.root).records()[-1]["detector"] == "run-1"
    assert Evaluator(config).judge.version == "run-1"


def test_settings_that_must_not_change_within_a_run_are_refused(finished):
    root, _ = finished
    config = tiny(root)
    config.seed = 5
    with pytest.raises(UserError, match="seed=0, not 5"):
        LocalRuntime(config, lambda line: None)
    config = tiny(root)
    config.world.outcome_size = 24
    with pytest.raises(UserError, match=r"world\.outcome_size=16, not 24"):
        LocalRuntime(config, lambda line: None)


def test_cover_object_joins_a_run_of_other_tasks(finished, tmp_path):
    """The scene gets a lid, and a sequence of collection ends with covering."""
    root = tmp_path / "bins"
    shutil.copytree(finished[0], root)
    config = tiny(root, tasks=["lift-any", "lift-can", "place-any", "cover-object"])
    assert config.world.lid
    runtime = LocalRuntime(config, lambda line: None, is_plan=False)
    runtime.collect(4)
    runtime.close()
    store = EpisodeStore(root)
    new = store.rows(after=12)
    truths = [store.truth(row.id) for row in new]
    store.close()
    assert {row.task for row in new} >= {"cover-object"}
    assert not any(truth["place-any"] for row, truth in zip(new, truths, strict=True) if row.task.startswith("lift"))


def test_the_run_waits_for_a_person(tmp_path):
    config = tiny(tmp_path)
    config.labels.who = "person"
    runtime = LocalRuntime(config, lambda line: None)
    assert runtime.run() is None
    assert runtime.controller.phase == "label"
    runtime.close()


def test_a_run_waits_for_more_labels_of_a_person_until_a_task_may_be_a_reward(tmp_path):
    """Else it would learn from the few labelled episodes alone, for as long as from all."""
    config, said = tiny(tmp_path), []
    config.labels.who = "person"
    runtime = LocalRuntime(config, said.append)
    assert runtime.run() is None

    def label(values, only=slice(None)):
        with closing(EpisodeStore(config.root, config.storage)) as store:
            rows = store.rows()[only]
            store.add_labels([Label(row.id, task, values[task], "person") for row in rows for task in values])

    label({"lift-any": 1.0}, slice(0, None, 2))
    label({"lift-any": 0.0}, slice(1, None, 2))
    config.detector.least_tested = 1000
    for tries in (1, 2):
        for _ in range(2):  # a second call finds no new label, so it trains nothing and says the same
            assert runtime.run() is None
            assert (runtime.controller.phase, runtime.controller.open) == ("detector", [])
            assert in_use(config.detectors) == f"run-{tries}", "no version stands for two detectors"
            lines = [line.partition("more labels: ")[2] for line in said if line.startswith("no reward")][-3:]
            assert lines[0].startswith("lift-any (") and "at least 1000 must" in lines[0]
            assert [line.partition(";")[0] for line in lines[1:]] == [
                "lift-can (no success of it is labelled",
                "place-any (no success of it is labelled",
            ]
            said.clear()
        label({"lift-can": 0.0}, slice(tries, tries + 1))
    runtime.close()
    runtime = LocalRuntime(config, said.append)
    assert runtime.run() is None and in_use(config.detectors) == "run-3", "these labels came after the last detector"
    runtime.close()
    runtime = LocalRuntime(config, said.append)
    assert runtime.run() is None and in_use(config.detectors) == "run-3", "the run's folder knows that none came since"
    config.detector.least_tested = 0
    config.detector.least_precision = 0.0
    assert runtime._do_next() and runtime.controller.phase == "grade", "other settings are worth a try"
    assert in_use(config.detectors) == "run-4"
    config.detector.least_tested = 1000
    runtime._train_detector(Job("detector", 1, 4))
    assert said[-1] == "detector run-5 may reward no task, so run-4 stays in use" and runtime._has_rewards()
    runtime.close()
