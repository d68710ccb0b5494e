"""The detector in use as a source of verdicts."""

import pytest
import torch
from helpers.detectors import save_detector

from polytask.errors import UserError
from polytask.mtopt.detector import Judge
from polytask.mtopt.detector.folder import choose, in_use, newest
from polytask.mtopt.records import Label

LEARNED = ("lift-any", "lift-can", "place-any")


def test_a_chosen_detector_stays_in_use_when_a_newer_one_appears(tmp_path):
    judge = Judge(tmp_path, "cpu")
    assert not judge.sync() and judge.version == "" and judge.taught(LEARNED) == ()
    save_detector(tmp_path, "d1")
    assert judge.sync() and judge.version == "d1", "nothing was chosen: the newest"
    save_detector(tmp_path, "d2")
    choose(tmp_path, "d1")
    assert not judge.sync() and judge.version == "d1"
    assert in_use(tmp_path) == "d1" and newest(tmp_path) == "d2"
    choose(tmp_path, "d2")
    assert judge.sync() and judge.version == "d2"
    assert Judge(tmp_path, "cpu", "d1").version == "d1"
    (tmp_path / "d2.pt").unlink()
    with pytest.raises(UserError, match="detector d2 is in use, but its file is missing"):
        judge.sync()


def test_only_taught_tasks_are_graded(tmp_path):
    save_detector(tmp_path, "d1", taught=["lift-can", "lift-milk"])
    judge = Judge(tmp_path, "cpu")
    assert judge.taught(LEARNED) == judge.judged(LEARNED) == ("lift-can",)
    frames = torch.zeros(2, 2, 16, 16, 3, dtype=torch.uint8)
    assert judge.grade(frames, ["lift-can"]).shape == (2, 1)
    with pytest.raises(AssertionError, match="untrained and refused columns"):
        judge.grade(frames, ["lift-any"])


def test_refused_tasks_are_not_graded_and_tasks_have_their_own_thresholds(tmp_path):
    reasons = {"lift-can": "too many wrong ones"}
    save_detector(tmp_path, "d1", threshold=0.4, thresholds={"lift-any": 0.8}, refused=reasons)
    judge = Judge(tmp_path, "cpu")
    assert judge.taught(LEARNED) == LEARNED
    assert judge.judged(LEARNED) == tuple(task for task in LEARNED if task != "lift-can")
    assert judge.refused(LEARNED) == reasons
    assert (judge.threshold("lift-any"), judge.threshold("lift-can")) == (0.8, 0.4)
    with pytest.raises(AssertionError, match="refused columns"):
        judge.grade(torch.zeros(2, 2, 16, 16, 3, dtype=torch.uint8), ["lift-can"])


def test_probabilities_become_labels_of_the_detector(tmp_path):
    save_detector(tmp_path, "d1")
    labels = Judge(tmp_path, "cpu").labels([7, 9], torch.tensor([[0.25, 1.5], [0.0, 0.5]]), ["lift-any", "lift-can"])
    assert labels == [
        Label(7, "lift-any", 0.25, "detector:d1"),
        Label(7, "lift-can", 1.0, "detector:d1"),
        Label(9, "lift-any", 0.0, "detector:d1"),
        Label(9, "lift-can", 0.5, "detector:d1"),
    ]
