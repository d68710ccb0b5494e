"""Labels from the detector in use."""

import pytest
import torch
from helpers.detectors import save_detector

from polytask.errors import UserError
from polytask.mtopt.records import Label
from polytask.mtopt.roles import Grader
from polytask.mtopt.roles.tries import count_tries
from polytask.mtopt.store import tallies
from polytask.mtopt.tasks import ALL_TASKS, TASKS


def test_the_grader_adds_only_what_is_missing_and_starts_over_for_a_new_detector(config, store):
    grader = Grader(config)
    assert grader.run()["labels"] == 0, "there is no detector"
    detector = save_detector(config.detectors, "d1")
    store.add_labels([Label(3, "lift-can", 0.25, "detector:d1")])
    assert grader.step(limit=5) == {"episodes": 5.0, "labels": 14.0, "last": 5.0}
    assert grader.run()["labels"] == 7 * 3, "the upload is not judged"
    labels = {(one.episode, one.task): one.value for one in store.labels(source="detector:d1")}
    assert len(labels) == 12 * 3
    assert labels[3, "lift-can"] == 0.25
    frames = torch.from_numpy(store.outcome(7))[None]
    task = torch.tensor([ALL_TASKS.index("place-any")])
    assert labels[7, "place-any"] == pytest.approx(float(detector.predict(frames, task)), abs=1e-5)
    assert grader.run()["labels"] == 0
    save_detector(config.detectors, "d2")
    assert grader.run()["labels"] == 12 * 3
    config.tasks = [*config.learned, "lift-red-thing"]
    assert Grader(config).run()["labels"] == 12, "a new task, and nothing else"
    grader.close()


def test_tasks_that_a_detector_was_not_taught_get_no_labels(config, store):
    save_detector(config.detectors, "d1", taught=["lift-can", "lift-milk"])
    grader = Grader(config)
    assert grader.run()["labels"] == 12
    assert {one.task for one in store.labels(source="detector:d1")} == {"lift-can"}
    assert store.rewards("lift-any", "d1") == store.rewards("place-any", "d1") == {}
    assert set(count_tries(store, config.learned, TASKS, grader.judge)["lift-any"]) == set()
    with pytest.raises(AssertionError, match="untrained and refused columns"):
        grader.judge.grade(torch.from_numpy(store.outcome(1))[None], ["lift-any"])
    grader.close()


def test_a_named_detector_is_used_though_there_is_a_newer_one(config, store):
    save_detector(config.detectors, "d1")
    save_detector(config.detectors, "d2")
    Grader(config, "d1").run()
    assert len(store.labels(source="detector:d1")) == 36
    assert not store.labels(source="detector:d2")
    with pytest.raises(UserError, match="no success detector"):
        Grader(config, "d3")


def test_a_later_grader_looks_only_at_blocks_with_something_new(config, store, monkeypatch):
    monkeypatch.setattr(tallies, "BLOCK", 4)
    save_detector(config.detectors, "d1")
    count = len(store)
    assert Grader(config).run()["labels"] == 36
    assert Grader(config).run()["episodes"] == count % 4, "only the last block"
    with store.writer("more") as writer:
        writer.append_many([store.read(1)] * 6)
    done = Grader(config).run()
    assert (done["labels"], done["episodes"], done["last"]) == (18, count % 4 + 6, count + 6)
    config.tasks = [*config.learned, "lift-red-thing"]
    assert Grader(config).run()["episodes"] == count + 6, "a new task: no block has all of its verdicts"


def test_a_grader_of_a_span_leaves_the_rest(config, store):
    save_detector(config.detectors, "d1")
    assert Grader(config).run(after=3, until=5) == {"episodes": 2.0, "labels": 6.0, "last": 5.0}
    assert {one.episode for one in store.labels(source="detector:d1")} == {4, 5}
    assert Grader(config).run(stops=[2])["episodes"] == 0
