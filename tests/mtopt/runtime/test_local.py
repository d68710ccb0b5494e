"""A whole run in one process: it repeats exactly, and a kill at any moment changes nothing."""

import json
import os
import shutil

import pytest
import torch
from helpers.tiny_run import tiny

from polytask.errors import UserError
from polytask.mtopt.config.run import RunConfig, from_plain
from polytask.mtopt.detector.folder import choose, in_use
from polytask.mtopt.roles import Evaluator, Trainer
from polytask.mtopt.runtime.beside import collect_beside
from polytask.mtopt.runtime.checks import check
from polytask.mtopt.runtime.folder import RunFolder
from polytask.mtopt.runtime.local import LocalRuntime
from polytask.mtopt.runtime.lock import BusyError
from polytask.mtopt.seeds import derive
from polytask.mtopt.store import EpisodeStore

pytest.importorskip("fastapi")


class Killed(Exception):
    """Stands for a signal."""


def contents(root):
    """Collect what a run left: episodes, labels, counts, weights."""
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
    assert sources == {"oracle", "detector:run-1", "detector:run-2"}
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
    """Kill it once behind every job, after its work and before that is written down."""
    note, killed = LocalRuntime._note, set()

    def die_or_note(self, job, *arguments):
        if job not in killed:
            killed.add(job)
            raise Killed
        note(self, job, *arguments)

    monkeypatch.setattr(LocalRuntime, "_note", die_or_note)
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
    assert runtime.collect(6) == {"episodes": 8.0, "added": 8.0}  # four at a time
    assert runtime.collect(6) == {"episodes": 8.0, "added": 0.0}
    assert runtime.controller.phase == "label", "the first round has its episodes"
    with pytest.raises(UserError, match="buffers are empty"):
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
        runtime = LocalRuntime(check(config), lambda line: None)
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


def test_collecting_beside_a_run_adds_episodes_and_touches_nothing_else(finished, tmp_path):
    config = tiny(tmp_path)
    runtime = LocalRuntime(config, lambda line: None)
    before = {name: (tmp_path / name).read_bytes() for name in ("run.json", "metrics.jsonl")}
    assert collect_beside(tiny(tmp_path), 3, lambda line: None) == {"episodes": 4.0, "added": 4.0}
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    runtime.run()
    runtime.close()
    store = EpisodeStore(tmp_path)
    beside, own = store.rows()[:4], store.rows()[4:]
    store.close()
    whole = contents(finished[0])["rows"]
    assert {row.seed for row in own} == {row[3] for row in whole}, "the run collected all that it would have collected"
    assert {row.seed for row in beside}.isdisjoint(row.seed for row in own)
    config.seed = 5
    with pytest.raises(UserError, match="seed=0, not 5"):
        collect_beside(config, 30, lambda line: None)


def test_training_goes_by_the_detector_in_use(finished, tmp_path):
    shutil.copytree(finished[0], tmp_path / "copy")
    config = tiny(tmp_path / "copy")
    assert in_use(config.detectors) == "run-2", "what the run trained last"
    choose(config.detectors, "run-1")
    runtime = LocalRuntime(config, lambda line: None)
    runtime.train(2)
    runtime.close()
    assert RunFolder(config.root).records()[-1]["detector"] == "run-1"
    assert Evaluator(config).judge.version == "run-1"


def test_what_must_not_change_within_a_run_is_refused(finished):
    root, _ = finished
    config = tiny(root)
    config.seed = 5
    with pytest.raises(UserError, match="seed=0, not 5"):
        LocalRuntime(config, lambda line: None)
    config = tiny(root)
    config.world.outcome_size = 24
    with pytest.raises(UserError, match=r"world\.outcome_size=16, not 24"):
        LocalRuntime(config, lambda line: None)


def test_a_person_is_waited_for(tmp_path):
    config = tiny(tmp_path)
    config.labels.who = "person"
    runtime = LocalRuntime(config, lambda line: None)
    assert runtime.run() is None
    assert runtime.controller.phase == "label"
    runtime.close()


def test_settings_survive_being_written_down(tmp_path):
    config = tiny(tmp_path)
    folder = RunFolder(tmp_path)
    folder.begin(config)
    folder.close()
    assert RunFolder(tmp_path).config() == config
    assert from_plain(RunConfig, {"seed": 3, "unknown": 1}).seed == 3


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda config: config.tasks.append("lift-moon"), "unknown task 'lift-moon'"),
        (lambda config: setattr(config.labels, "who", "nobody"), "labels.who=nobody"),
        (lambda config: setattr(config.trainer, "batch", 1), "trainer.batch=1: at least 2"),
        (lambda config: setattr(config.trainer, "buffer", 4), "trainer.buffer=4: at least 8"),
        (lambda config: setattr(config.trainer, "reuse", 0.0), "trainer.reuse=0.0"),
        (lambda config: setattr(config.trainer, "keep", 1), "trainer.keep=1: 0 keeps all weights, else at least 2"),
        (lambda config: setattr(config.trainer, "keep", -1), "trainer.keep=-1"),
        (lambda config: setattr(config.learner.network, "image_size", 32), "looks at 32 pixels, pictures have 16"),
    ],
)
def test_settings_that_cannot_work_are_refused(tmp_path, change, line):
    config = tiny(tmp_path)
    change(config)
    with pytest.raises(UserError, match=line):
        check(config)


def test_seeds_for_different_purposes_differ():
    seeds = {derive(seed, word, number) for seed in range(3) for word in ("a", "b") for number in range(10)}
    assert len(seeds) == 60
    assert derive(0, "a", 1) == derive(0, "a", 1)
