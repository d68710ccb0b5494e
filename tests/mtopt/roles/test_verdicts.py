"""Labels from people and detectors: teacher, detector trainer, labeller, tally, evaluator."""

from dataclasses import replace

import pytest
import torch
from helpers.episodes import make
from helpers.tiny_run import tiny

from polytask.errors import UserError
from polytask.mtopt.config.network import NetworkConfig
from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.detector import Detector
from polytask.mtopt.detector.folder import choose, in_use, newest
from polytask.mtopt.label.judge import all_labels
from polytask.mtopt.networks import build_detector
from polytask.mtopt.records import Label
from polytask.mtopt.roles import DetectorTrainer, Evaluator, Judge, Labeller, Teacher
from polytask.mtopt.roles.controller import OWN, SCRIPT, Tries
from polytask.mtopt.roles.evaluator import Evaluation, TaskResult
from polytask.mtopt.roles.labeller import tally
from polytask.mtopt.store import EpisodeStore, uploaded
from polytask.mtopt.world import ALL_TASKS

TRUTH = {"lift-any": True, "lift-can": False, "place-any": False}


@pytest.fixture
def config(tmp_path):
    return tiny(tmp_path)


@pytest.fixture
def store(config):
    """Hold 12 lifts, the even ones successes, and an upload."""
    made = EpisodeStore(config.root, StoreConfig(fsync=False))
    with made.writer("a") as writer:
        for number in range(12):
            truth = {**TRUTH, "lift-any": number % 2 == 0}
            writer.append(replace(make(number, task="lift-any", size=12, truth=truth), policy="scripted-pick"))
        writer.append(uploaded(make(0, size=12).outcome, "lift-any"))
    yield made
    made.close()


def save_detector(config, version, taught=None):
    network = build_detector("small", len(ALL_TASKS), 2, image_size=16)
    detector = Detector(version, ALL_TASKS, network, config=NetworkConfig(image_size=16), taught=taught)
    detector.save(config.detectors / f"{version}.pt")
    return detector


def test_the_stand_in_labels_through_the_page_up_to_the_goal(config, store):
    pytest.importorskip("fastapi")
    config.labels.per_task = 5
    config.tasks = ["lift-any", "lift-can"]
    teacher = Teacher(config)
    assert teacher.step(0)["labels"] == 10
    labels = store.labels(source="oracle")
    assert {task: sum(one.task == task for one in labels) for task in config.tasks} == {"lift-any": 5, "lift-can": 5}
    assert all(one.value == float(store.truth(one.episode)[one.task]) for one in labels)
    assert teacher.step(0)["labels"] == 0, "what a killed process left is completed, not added to"
    save_detector(config, "d1")
    assert teacher.step(1)["labels"] == 2, "one more for each task in the second round"
    teacher.close()


def test_the_stand_in_goes_on_with_tasks_that_the_detector_was_not_taught(config, store):
    pytest.importorskip("fastapi")
    config.labels.per_task, config.labels.round_per_task = 2, 3
    config.tasks = ["lift-any", "lift-can"]
    teacher = Teacher(config)
    teacher.step(0)
    save_detector(config, "d1", taught=["lift-any"])
    assert teacher.step(1)["labels"] == 6, "nothing is ranked for lift-can, so any episodes are labelled"
    teacher.close()


def test_a_person_is_waited_for_until_both_kinds_are_labelled(config, store):
    config.labels.who = "person"
    teacher = Teacher(config)
    assert not teacher.is_ready
    store.add_labels([Label(1, "lift-any", 1.0, "person")])
    assert not teacher.is_ready
    store.add_labels([Label(2, "lift-can", 0.0, "person")])
    assert not teacher.is_ready, "a success of one task and a failure of another teach nothing"
    store.add_labels([Label(2, "lift-any", 0.0, "person")])
    assert teacher.is_ready
    assert teacher.step(0)["labels"] == 3
    teacher.close()


def test_a_detector_is_trained_from_people_and_measured_on_labels_kept_aside(config, store):
    trainer = DetectorTrainer(config)
    with pytest.raises(UserError, match="label some successes and some failures"):
        trainer.step("run-1")
    store.add_labels([Label(e, "place-any", 0.0, "oracle") for e in range(1, 13)])
    store.add_labels([Label(e, "lift-can", 1.0, "oracle") for e in range(1, 13)])
    with pytest.raises(UserError, match="some successes and some failures of a task first"):
        trainer.step("run-1")
    store.add_labels([Label(e, "lift-any", float(e % 2), "oracle") for e in range(1, 13)])
    assert trainer.teachable() == ("lift-any",)
    store.add_labels([Label(1, "lift-any", 0.0, "person"), Label(2, "lift-any", 0.7, "detector:x")])
    assert all_labels(trainer.store)["lift-any"] == {e: e % 2 == 1 and e != 1 for e in range(1, 13)}
    seen = []
    found = trainer.step("run-1", seen.append)
    assert seen == [0.0, 0.5], "two updates"
    assert found["labels"] + found["held"] == 3 * 12
    assert found["taught"] == 1
    assert {name for name in found if name.startswith("balanced_accuracy/")} == {"balanced_accuracy/lift-any"}
    files = {"run-1.pt", "run-1.json", "run-1.scores.json", "in_use"}
    assert {path.name for path in config.detectors.iterdir()} == files
    judge = Judge(config.detectors, "cpu")
    assert judge.version == "run-1"
    assert judge.taught(config.learned) == ("lift-any",)

    def stop(share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer.step("run-2", stop)
    assert not (config.detectors / "run-2.pt").exists()
    trainer.close()


def test_the_labeller_adds_only_what_is_missing_and_starts_over_for_a_new_detector(config, store):
    labeller = Labeller(config)
    assert labeller.run()["labels"] == 0, "there is no detector"
    detector = save_detector(config, "d1")
    store.add_labels([Label(3, "lift-can", 0.25, "detector:d1")])
    assert labeller.step(limit=5) == {"episodes": 5.0, "labels": 14.0, "last": 5.0}
    assert labeller.run()["labels"] == 7 * 3, "the upload is not judged"
    labels = {(one.episode, one.task): one.value for one in store.labels(source="detector:d1")}
    assert len(labels) == 12 * 3
    assert labels[3, "lift-can"] == 0.25
    frames = torch.from_numpy(store.outcome(7))[None]
    task = torch.tensor([ALL_TASKS.index("place-any")])
    assert labels[7, "place-any"] == pytest.approx(float(detector.predict(frames, task)), abs=1e-5)
    assert labeller.run()["labels"] == 0
    save_detector(config, "d2")
    assert labeller.run()["labels"] == 12 * 3
    config.tasks = [*config.learned, "lift-red-thing"]
    assert Labeller(config).run()["labels"] == 12, "a new task, and nothing else"
    labeller.close()


def test_nothing_is_said_of_tasks_that_a_detector_was_not_taught(config, store):
    save_detector(config, "d1", taught=["lift-can", "lift-milk"])
    labeller = Labeller(config)
    assert labeller.run()["labels"] == 12
    assert {one.task for one in store.labels(source="detector:d1")} == {"lift-can"}
    assert store.rewards("lift-any", "d1") == store.rewards("place-any", "d1") == {}
    assert set(tally(store, config.learned, labeller.judge)["lift-any"]) == set()
    with pytest.raises(AssertionError, match="nothing trained"):
        labeller.judge.grade(torch.from_numpy(store.outcome(1))[None], ["lift-any"])
    labeller.close()


def test_a_detector_that_was_chosen_stays_in_use_though_a_newer_one_appears(config, store):
    judge = Judge(config.detectors, "cpu")
    assert not judge.sync() and judge.version == "" and judge.taught(config.learned) == ()
    save_detector(config, "d1")
    assert judge.sync() and judge.version == "d1", "nothing was chosen: the newest"
    save_detector(config, "d2")
    choose(config.detectors, "d1")
    assert not judge.sync() and judge.version == "d1"
    assert in_use(config.detectors) == "d1" and newest(config.detectors) == "d2"
    choose(config.detectors, "d2")
    assert judge.sync() and judge.version == "d2"
    assert Judge(config.detectors, "cpu", "d1").version == "d1"
    with pytest.raises(UserError, match="no success detector"):
        choose(config.detectors, "d3")
    (config.detectors / "d2.pt").unlink()
    with pytest.raises(UserError, match="detector d2, which is in use, is gone"):
        judge.sync()


def test_a_named_detector_is_used_though_there_is_a_newer_one(config, store):
    save_detector(config, "d1")
    save_detector(config, "d2")
    Labeller(config, "d1").run()
    assert len(store.labels(source="detector:d1")) == 36
    assert not store.labels(source="detector:d2")
    with pytest.raises(UserError, match="no success detector"):
        Labeller(config, "d3")


def test_attempts_are_counted_for_all_tasks_that_what_acted_could_serve(config):
    store = EpisodeStore(config.root, StoreConfig(fsync=False))
    policies = (
        ("lift-any", "scripted-pick"),
        ("lift-can", "scripted-pick"),
        ("lift-any", "q:3"),
        ("lift-can", "q:3:lift-any"),
        ("lift-can", "q:3"),
        ("place-any", "q:3"),
    )
    with store.writer("a") as writer:
        for task, policy in policies:
            writer.append(replace(make(0, task=task), policy=policy))
    won = {1, 3, 4}
    store.add_labels([Label(e, t, float(e in won), "detector:d1") for e in range(1, 7) for t in config.learned])
    save_detector(config, "d1")
    judge = Judge(config.detectors, "cpu")
    found = tally(store, config.learned, judge)
    assert found["lift-any"] == {SCRIPT: Tries(2, 1), OWN: Tries(2, 2), "lift-can": Tries(1, 0)}
    assert found["lift-can"] == {SCRIPT: Tries(2, 1), "lift-any": Tries(2, 2), OWN: Tries(1, 0)}
    assert found["place-any"] == {OWN: Tries(1, 0)}
    later = tally(store, config.learned, judge, after=4)
    assert later["lift-any"] == {SCRIPT: Tries(2, 1), "lift-can": Tries(1, 0)}, "scripts count from the start"
    store.close()


def test_an_evaluation_is_repeatable_and_shows_truth_beside_verdict(config):
    config.world.num_envs = 3
    config.evaluator.episodes = 4
    evaluator = Evaluator(config)
    with pytest.raises(UserError, match="nothing was learned"):
        evaluator.sync()
    first = evaluator.step(["place-any"], is_scripted=True)
    assert first.policy == "scripted"
    row = first.tasks[0]
    assert (row.task, row.episodes, row.verdict, row.script) == ("place-any", 4, None, None)
    assert row.low <= row.success <= row.high
    network = build_detector("small", len(ALL_TASKS), 3, image_size=16)
    Detector("d1", ALL_TASKS, network, threshold=0.0, config=NetworkConfig(image_size=16)).save(
        config.detectors / "d1.pt"
    )
    evaluator.judge.sync()
    second = evaluator.step(["place-any"], is_scripted=True)
    assert second.tasks[0].success == row.success
    assert second.tasks[0].length == row.length
    assert (second.tasks[0].verdict, second.detector) == (1.0, "d1"), "above a threshold of zero all is granted"
    assert second.tasks[0].wrong in (1.0, None)
    assert Evaluation.load(second.plain()) == second
    Detector("d2", ALL_TASKS, network, config=NetworkConfig(image_size=16), taught=["lift-any"]).save(
        config.detectors / "d2.pt"
    )
    evaluator.judge.sync()
    third = evaluator.step(["place-any"], is_scripted=True)
    assert (third.tasks[0].verdict, third.tasks[0].wrong, third.detector) == (None, None, "d2"), "not taught"


def test_the_mean_of_an_evaluation_is_over_tasks():
    rows = [TaskResult(name, 2, value, 0.0, 1.0, None, None, None, 3.0) for name, value in (("a", 0.5), ("b", 1.0))]
    found = Evaluation("q:2", 2, "", 0, rows)
    assert found.metrics() == {"success": 0.75, "weights": 2.0, "success/a": 0.5, "success/b": 1.0}
