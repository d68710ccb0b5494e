"""Which tasks may be rewards."""

import pytest
import torch

from polytask.mtopt.detector.gate import needs, precision_interval, refusals
from polytask.mtopt.detector.metrics import score


def measured(right, wrong, missed=0, rejected=5):
    """Score a detector that accepts `right + wrong` outcomes."""
    said = torch.tensor([0.9] * (right + wrong) + [0.1] * (missed + rejected))
    truth = torch.tensor([1.0] * right + [0.0] * wrong + [1.0] * missed + [0.0] * rejected)
    return score("task", said, truth)


def test_the_interval_is_wilsons():
    assert precision_interval(measured(8, 2)) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert precision_interval(measured(0, 0)) == (0.0, 1.0), "nothing accepted shows nothing"


@pytest.mark.parametrize(
    ("right", "wrong", "is_refused"),
    [(3, 7, True), (0, 1, True), (5, 4, True), (3, 2, False), (20, 2, False), (0, 0, False)],
)
def test_a_task_is_refused_where_its_precision_on_random_labels_is_too_low(right, wrong, is_refused):
    scores = {"lift-can": measured(right, wrong)}
    assert (set(refusals(scores, scores, 0.6, 0)) == {"lift-can"}) == is_refused
    assert refusals(scores, scores, 0.0, 0) == {}


@pytest.mark.parametrize(("rejected", "is_refused"), [(7, True), (8, False)])
def test_a_task_is_refused_until_enough_random_labels_have_tested_it(rejected, is_refused):
    scores = {"lift-can": measured(12, 0, rejected=rejected)}
    found = refusals(["lift-can"], scores, 0.6, 20)
    assert (set(found) == {"lift-can"}) == is_refused
    if is_refused:
        assert found["lift-can"] == "19 random labels measure it, but at least 20 must; label more under New"
        assert needs(scores["lift-can"], found["lift-can"], 0.6) == found["lift-can"]


def test_a_task_that_no_random_label_measures_is_refused_unless_none_is_asked_for():
    found = refusals(["lift-can"], {}, 0.6, 1)
    assert found == {"lift-can": "0 random labels measure it, but at least 1 must; label more under New"}
    assert needs(None, found["lift-can"], 0.6) == found["lift-can"]
    assert refusals(["lift-can"], {}, 0.6, 0) == {}
    assert refusals([], {}, 0.6, 1) == {}, "a task that was not taught has no verdict anyway"


def test_the_reason_says_what_was_counted():
    reason = refusals(["a"], {"a": measured(6, 24)}, 0.6, 20)["a"]
    assert reason == "of 30 random outcomes that it calls successes, 6 are; the precision must be at least 0.60"
    assert needs(measured(6, 24), reason, 0.6) == reason
    assert needs(measured(3, 1), None, 0.6).startswith(
        "too few random labels to be sure: its precision lies between 0.3"
    )
    assert needs(measured(40, 1), None, 0.6) is None
    assert "successes and failures" in needs(None, None, 0.6)
    assert needs(None, None, 0.6, "its 3 successes are all kept aside") == "its 3 successes are all kept aside"
