"""Scores against numbers worked out by hand."""

import pytest
import torch
from helpers.outcomes import NAMES, outcomes

from polytask.mtopt.detector import Detector
from polytask.mtopt.detector.metrics import calibration, disagreements, score, uncertain_first, wrong_objects


def test_wrong_objects_are_counted_where_only_another_was_lifted(trained):
    frames, truth = outcomes(200, torch.Generator().manual_seed(2))
    columns = {name: truth[:, index] for index, name in enumerate(NAMES)}
    red, blue = wrong_objects(trained, frames, columns)
    assert (red.task, red.count) == ("lift-red", int(truth[:, 2].sum()))
    assert (blue.task, blue.count) == ("lift-blue", int(truth[:, 1].sum()))
    assert red.rate < 0.15 and blue.rate < 0.15
    generous = Detector("all", NAMES, trained.network, threshold=-1.0)
    assert wrong_objects(generous, frames, columns)[0].rate == 1.0
    (nothing,) = wrong_objects(trained, frames[:0], {"lift-any": truth[:0, 0], "lift-red": truth[:0, 1]})
    assert nothing.count == 0 and nothing.rate is None


def test_scores_by_hand():
    probability = torch.tensor([0.9, 0.8, 0.3, 0.6, 0.2, 0.1])
    truth = torch.tensor([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    row = score("task", probability, truth)
    # Accepted: the first two and the fourth. Hits 2 of 3, false 1 of 3.
    assert (row.count, row.successes) == (6, 3)
    assert row.precision == row.recall == pytest.approx(2 / 3)
    assert row.false_positive_rate == pytest.approx(1 / 3) and row.balanced_accuracy == pytest.approx(2 / 3)
    strict = score("task", probability, truth, threshold=0.85)
    assert strict.precision == 1.0 and strict.recall == pytest.approx(1 / 3) and strict.false_positive_rate == 0.0
    one_sided = score("task", torch.tensor([0.1, 0.2]), torch.tensor([0.0, 0.0]))
    assert one_sided.recall is one_sided.precision is one_sided.balanced_accuracy is None


def test_calibration_by_hand():
    # Bin 2 says 0.25 and 0.5 is true; bin 9 says 0.95 and 1 is true: (2 * 0.25 + 2 * 0.05) / 4.
    found = calibration(torch.tensor([0.25, 0.25, 0.95, 1.0 - 0.1 + 0.05]), torch.tensor([1.0, 0.0, 1.0, 1.0]))
    assert found.error == pytest.approx(0.15)
    assert found.count == [0, 0, 2, 0, 0, 0, 0, 0, 0, 2]
    assert found.said[2] == pytest.approx(0.25) and found.true[2] == 0.5 and found.true[9] == 1.0
    assert found.said[0] is None
    assert calibration(torch.tensor([1.0]), torch.tensor([1.0])).count[9] == 1


def test_order_of_outcomes_for_a_person():
    probabilities = [0.9, 0.45, 0.1, 0.55, 0.6]
    assert uncertain_first(probabilities).tolist() == [1, 3, 4, 0, 2]
    assert uncertain_first(torch.tensor(probabilities), threshold=0.9).tolist()[0] == 0
    # Verdicts: yes, no, no, yes, yes. The first and third labels differ; 0.1 and 0.9 are as sure, then 0.6.
    assert disagreements([0, 0, 1, 1, 0], probabilities).tolist() == [2, 0, 4]
    assert disagreements([1, 0, 0, 1, 1], probabilities).tolist() == []
