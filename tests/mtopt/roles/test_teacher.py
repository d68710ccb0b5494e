"""Labels from the stand-in and from people."""

import pytest
from helpers.detectors import save_detector

from polytask.mtopt.config.learning import MEASURED
from polytask.mtopt.detector.labels import is_held_out
from polytask.mtopt.label.stand_in import StandIn
from polytask.mtopt.records import Label
from polytask.mtopt.roles import Teacher


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
    save_detector(config.detectors, "d1")
    assert teacher.step(1)["labels"] == 2, "one more for each task in the second round"
    teacher.close()


def test_the_stand_in_also_labels_tasks_that_the_detector_was_not_taught(config, store):
    pytest.importorskip("fastapi")
    config.labels.per_task, config.labels.round_per_task = 2, 3
    config.tasks = ["lift-any", "lift-can"]
    teacher = Teacher(config)
    teacher.step(0)
    save_detector(config.detectors, "d1", taught=["lift-any"])
    assert teacher.step(1)["labels"] == 6, "nothing is ranked for lift-can, so any episodes are labelled"
    teacher.close()


def test_later_passes_ask_for_random_likely_and_uncertain_outcomes(config, store, monkeypatch):
    pytest.importorskip("fastapi")
    config.labels.per_task, config.labels.passes = 12, 2
    config.tasks = ["lift-any"]
    asked = []
    label = StandIn.label
    monkeypatch.setattr(
        StandIn, "label", lambda self, task, count, order="new": asked.append(order) or label(self, task, count, order)
    )
    teacher = Teacher(config)
    assert teacher.step(0, 0)["labels"] == 6
    assert asked == ["new"]
    save_detector(config.detectors, "d1")
    assert teacher.step(0, 1)["labels"] == 6
    assert asked[1:4] == ["new", "likely", "uncertain"]
    teacher.close()


def test_it_is_not_ready_until_a_person_has_labelled_both_kinds(config, store):
    config.labels.who = "person"
    teacher = Teacher(config)
    assert not teacher.is_ready
    store.add_labels([Label(1, "lift-any", 1.0, "person")])
    assert not teacher.is_ready
    store.add_labels([Label(2, "lift-can", 0.0, "person")])
    assert not teacher.is_ready, "a success of one task and a failure of another teach nothing"
    assert is_held_out([5], MEASURED)
    store.add_labels([Label(5, "lift-any", 0.0, "person")])
    assert not teacher.is_ready, "a failure that only measures teaches nothing"
    config.tasks = ["lift-can", "place-any"]
    store.add_labels([Label(2, "lift-any", 0.0, "person")])
    assert not teacher.is_ready, "the run does not learn lift-any"
    config.tasks.append("lift-any")
    assert teacher.is_ready
    assert teacher.step(0)["labels"] == 4
    teacher.close()
