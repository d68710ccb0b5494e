"""Training: what a detector learns, the split for the temperature, the shares of tasks and verdicts."""

import math
from dataclasses import replace

import pytest
import torch
from helpers.outcomes import NAMES, config, labelled, outcomes

from polytask.errors import UserError
from polytask.mtopt.config.network import AugmentConfig
from polytask.mtopt.detector import Detector, train_detector
from polytask.mtopt.detector.metrics import evaluate
from polytask.mtopt.detector.train import (
    augment_views,
    balanced_weights,
    fit_temperature,
    fit_thresholds,
    hold_out,
    label_kinds,
    outcome_hashes,
)


def test_learns_that_success_depends_on_colour_and_task(trained):
    report = evaluate(trained, *labelled(400, torch.Generator().manual_seed(1)))
    assert [row.task for row in report.tasks] == NAMES
    assert min(row.balanced_accuracy for row in report.tasks) > 0.9
    assert sum(row.balanced_accuracy for row in report.tasks) / len(NAMES) > 0.93
    assert max(row.calibration.error for row in report.tasks) < 0.1


def test_training_is_decided_by_the_generator():
    def train(seed):
        generator = torch.Generator().manual_seed(seed)
        examples = labelled(60, torch.Generator().manual_seed(0))
        found = train_detector(*examples, config(updates=3, batch=8), generator)
        return found.predict(*examples[:2])

    assert torch.equal(train(0), train(0)) and not torch.equal(train(0), train(1))


def test_all_labels_of_an_outcome_are_on_one_side_of_the_temperatures_holdout():
    frames, _ = outcomes(40, torch.Generator().manual_seed(0))
    place = torch.arange(120) % 40  # each outcome is labelled for three tasks
    outcome = outcome_hashes(frames[place], batch=7)
    assert [set(outcome[place == one].tolist()) for one in range(40)] == [{int(outcome[one])} for one in range(40)]
    assert len(outcome.unique()) == 40
    task, value = torch.arange(120) // 40, (place % 2).float()
    held = hold_out(outcome, label_kinds(task, value), 0.25)
    assert 3 * 5 <= int(held.sum()) <= 3 * 15
    assert set(place[held].tolist()).isdisjoint(place[~held].tolist())
    few = hold_out(outcome[:30], label_kinds(task, value)[:30], 0.25)
    assert torch.equal(few, held[:30]), "on the same side in every training"


def test_the_last_success_of_a_task_is_not_held_out():
    hashes = torch.tensor([0, 0, 1, 2]) << 60  # 0 is held out
    kind = torch.tensor([1, 2, 2, 2])
    assert hold_out(hashes, kind, 0.0001).tolist() == [False] * 4
    assert hold_out(hashes[1:], kind[1:], 0.0001).tolist()[0]


def test_outcomes_that_set_the_temperature_were_not_trained_on(monkeypatch):
    frames, truth = outcomes(30, torch.Generator().manual_seed(0))
    place, task = torch.arange(90) % 30, torch.arange(90) // 30
    trained_on, calibrated_on = [], []
    monkeypatch.setattr("polytask.mtopt.detector.train.fit", lambda *given: trained_on.extend(place[given[2]].tolist()))
    logits = Detector.logits

    def spy(self, outcome, *rest):
        calibrated_on.extend(row for one in outcome for row in range(30) if torch.equal(one, frames[row]))
        return logits(self, outcome, *rest)

    monkeypatch.setattr(Detector, "logits", spy)
    train_detector(frames[place], task, truth[place, task].float(), config(holdout=0.2), torch.Generator())
    assert 2 <= len(set(calibrated_on)) <= 12
    assert set(trained_on) | set(calibrated_on) == set(range(30))
    assert not set(trained_on) & set(calibrated_on)


def test_views_from_above_are_turned_and_mirrored_and_the_others_are_not():
    frames = torch.arange(2 * 3 * 3, dtype=torch.uint8).view(1, 2, 3, 3, 1).expand(400, 2, 3, 3, 3)
    seen = augment_views(frames, config(augment=AugmentConfig(), turned=[1]), torch.Generator().manual_seed(0))
    assert torch.equal(seen[:, 0], frames[:, 0])
    square = frames[0, 1]
    ways = [torch.rot90(one, quarter) for one in (square, square.flip(0)) for quarter in range(4)]
    counts = [int((seen[:, 1] == way).flatten(1).all(1).sum()) for way in ways]
    assert sum(counts) == 400 and min(counts) > 25  # eight ways, 50 of each to be expected
    with pytest.raises(UserError, match=r"turned=\[2\]: outcomes have views 0 to 1"):
        train_detector(frames[..., :3], torch.zeros(400, dtype=torch.long), torch.ones(400), config(turned=[2]), None)


def test_examples_that_cannot_train_a_detector_are_refused():
    frames, task, value = labelled(8, torch.Generator().manual_seed(5))
    with pytest.raises(UserError, match="no labelled frames"):
        train_detector(frames[:0], task[:0], value[:0], config(), torch.Generator())
    with pytest.raises(UserError, match="only 1 tasks are named"):
        train_detector(frames, torch.ones_like(task), value, replace(config(), tasks=["lift-any"]), torch.Generator())


def test_temperature_undoes_overconfidence():
    # Right nine times in ten and always sure at logit 10: the best logit is log 9, a temperature of 10 / log 9.
    logit = torch.tensor([10.0] * 10 + [-10.0] * 10).double()
    value = torch.tensor([1.0] * 9 + [0.0] + [0.0] * 9 + [1.0]).double()
    assert fit_temperature(logit, value, torch.ones(20).double()) == pytest.approx(10 / math.log(9), rel=0.02)


def test_tasks_and_verdicts_have_equal_shares():
    task = torch.tensor([0] * 10 + [1] * 4 + [2] * 2)
    value = torch.tensor([1.0] + [0.0] * 9 + [1.0] * 2 + [0.0] * 2 + [0.0] * 2)
    weight = balanced_weights(task, value, 4)
    share = [weight[(task == index) & (value == verdict)].sum().item() for index in range(3) for verdict in (0, 1)]
    assert share == pytest.approx([1 / 6, 1 / 6, 1 / 6, 1 / 6, 1 / 3, 0])  # the third task has failures only
    assert weight[0] == pytest.approx(1 / 6) and weight[1] == pytest.approx(1 / 54)


def test_a_task_gets_the_lowest_threshold_that_is_precise_enough():
    task = torch.tensor([0] * 8 + [1] * 4 + [2] * 4)
    said = torch.tensor([0.95, 0.9, 0.85, 0.85, 0.65, 0.65, 0.65, 0.55, 0.9, 0.8, 0.7, 0.2, 0.95, 0.95, 0.9, 0.92])
    value = torch.tensor([1.0, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1])
    settings = config(least_precision=0.7)
    found = fit_thresholds(said, task, value, 4, settings)
    assert found[0] == 0.7, "at 0.6 three of seven are wrong"
    assert 1 not in found, "no wrong one at 0.5"
    assert found[2] == 0.9, "none is precise enough: the most precise"
    assert 3 not in found, "no labels"
    assert fit_thresholds(said, task, value, 4, config(threshold=0.95, least_precision=0.7)) == {}


def test_a_threshold_is_not_raised_until_nothing_is_accepted():
    said, value = torch.tensor([0.62, 0.85, 0.75, 0.65]), torch.tensor([1.0, 0.0, 0.0, 0.0])
    task = torch.zeros(4, dtype=torch.long)
    assert fit_thresholds(said, task, value, 1, config(least_precision=0.7)) == {}, "above 0.7 no success is left"
    assert fit_thresholds(said, task, value * 0, 1, config(least_precision=0.7)) == {}, "none to keep"


def test_a_task_that_is_added_has_a_spare_place_in_the_detector_that_it_continues_from(tmp_path):
    """With one update of no size, the network is the one before; a network of other places starts anew."""
    examples, generator = labelled(60, torch.Generator().manual_seed(0)), torch.Generator
    first = train_detector(*examples, config(updates=20, batch=8, slots=5), generator().manual_seed(0))
    assert first.network.tasks == 5 and first.tasks == tuple(NAMES)
    assert first.predict_all(examples[0][:2]).shape == (2, 5)
    path = tmp_path / "7.pt"
    first.save(path)
    again = Detector.load(path)
    assert torch.equal(again.logits(*examples[:2]), first.logits(*examples[:2]))
    more = replace(config(updates=1, batch=8, lr=1e-12, weight_decay=0.0, slots=5), tasks=[*NAMES, "lift-green"])
    then = train_detector(*examples, more, generator().manual_seed(1), start=again)
    assert then.tasks[-1] == "lift-green" and "lift-green" not in then.taught
    assert torch.allclose(then.logits(*examples[:2]), first.logits(*examples[:2]), atol=1e-4)
    wider = train_detector(*examples, replace(more, slots=6), generator().manual_seed(1), start=again)
    assert not torch.allclose(wider.logits(*examples[:2]), first.logits(*examples[:2]), atol=1e-2)


def test_rectangular_outcomes_are_learned_from_and_are_never_turned():
    frames, task, value = labelled(20, torch.Generator().manual_seed(0))
    wide = torch.cat((frames, frames), 3)  # (M, V, S, 2 S, 3)
    found = train_detector(wide, task, value, config(updates=2, batch=8), torch.Generator().manual_seed(0))
    assert (found.config.image_size, found.config.image_width) == (frames.shape[2], 2 * frames.shape[2])
    assert found.predict_all(wide[:3]).shape == (3, len(NAMES))
    with pytest.raises(UserError, match="only square pictures can be turned"):
        train_detector(wide, task, value, config(turned=[0]), torch.Generator().manual_seed(0))
