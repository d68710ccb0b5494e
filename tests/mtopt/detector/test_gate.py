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
    found = refusals({"lift-can": measured(right, wrong)}, 0.6)
    assert (set(found) == {"lift-can"}) == is_refused
    assert refusals({"lift-can": measured(right, wrong)}, 0.0) == {}


def test_the_reason_says_what_was_counted():
    reason = refusals({"a": measured(6, 24)}, 0.6)["a"]
    assert reason == "of 30 random outcomes that it calls successes, 6 are; the precision must be at least 0.60"
    assert needs(measured(6, 24), reason, 0.6) == reason
    assert needs(measured(3, 1), None, 0.6).startswith(
        "too few random labels to be sure: its precision lies between 0.3"
    )
    assert needs(measured(40, 1), None, 0.6) is None
    assert "successes and failures" in needs(None, None, 0.6)
    assert needs(None, None, 0.6, "its 3 successes are all kept aside") == "its 3 successes are all kept aside"
