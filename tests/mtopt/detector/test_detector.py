"""The success detector: learns what a task means, keeps in a file, is scored by hand-worked numbers."""

import math
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from polytask.errors import UserError
from polytask.mtopt.config.learning import DetectorConfig
from polytask.mtopt.config.network import AugmentConfig, NetworkConfig
from polytask.mtopt.detector import (
    Detector,
    calibration,
    disagreements,
    evaluate,
    score,
    train_detector,
    uncertain_first,
    wrong_objects,
)
from polytask.mtopt.detector.train import (
    balanced_weights,
    changed,
    fit_temperature,
    hold_out,
    label_kinds,
    same_outcomes,
)
from polytask.mtopt.networks import LAYOUTS
from polytask.mtopt.networks.layout import Conv, Layout

SIDE = 16
NAMES = ["lift-any", "lift-red", "lift-blue"]
GREY, RED, BLUE = range(3)
COLOURS = torch.tensor([[90, 90, 90], [220, 40, 40], [40, 40, 220]], dtype=torch.uint8)


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    convs = (Conv(16, 5, stride=2), Conv(16, 3)), (Conv(16, 3, stride=2),)
    monkeypatch.setitem(LAYOUTS, "tiny", Layout(SIDE, *convs, 32, (32, 32), "group", "none", "channel"))


def config(**options):
    return DetectorConfig(
        "7", NAMES, **{"network": NetworkConfig("tiny"), "updates": 200, "batch": 64, "lr": 3e-3, **options}
    )


def outcomes(count, generator, lifted=None):
    """Draw two views each of a grey room in which nothing, a red or a blue square has been lifted, anywhere."""
    lifted = torch.randint(0, 3, (count,), generator=generator) if lifted is None else lifted
    noise = torch.randint(0, 30, (count, 2, SIDE, SIDE, 3), generator=generator)
    frames = (noise + 75).to(torch.uint8)
    left, top = (torch.randint(0, SIDE - 5, (count,), generator=generator) for _ in range(2))
    cells = torch.arange(SIDE)
    inside = (cells - top[:, None] < 5)[:, :, None] & (cells >= top[:, None])[:, :, None]
    inside = inside & ((cells - left[:, None] < 5) & (cells >= left[:, None]))[:, None, :]
    frames[:, 1] = torch.where(inside[..., None], COLOURS[lifted][:, None, None], frames[:, 1])
    truth = torch.stack((lifted > 0, lifted == RED, lifted == BLUE), 1)
    return frames, truth


def labelled(count, generator):
    frames, truth = outcomes(count, generator)
    task = torch.randint(0, 3, (count,), generator=generator)
    return frames, task, truth[torch.arange(count), task].float()


@pytest.fixture(scope="module")
def trained():
    with pytest.MonkeyPatch.context() as patch:
        convs = (Conv(16, 5, stride=2), Conv(16, 3)), (Conv(16, 3, stride=2),)
        patch.setitem(LAYOUTS, "tiny", Layout(SIDE, *convs, 32, (32, 32), "group", "none", "channel"))
        generator = torch.Generator().manual_seed(0)
        return train_detector(*labelled(900, generator), config(), generator)


def test_learns_that_success_depends_on_colour_and_task(trained):
    report = evaluate(trained, *labelled(400, torch.Generator().manual_seed(1)))
    assert [row.task for row in report.tasks] == NAMES
    assert min(row.balanced_accuracy for row in report.tasks) > 0.9
    assert report.mean_balanced_accuracy > 0.93
    assert max(row.calibration.error for row in report.tasks) < 0.1


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


def test_training_is_decided_by_the_generator():
    def train(seed):
        generator = torch.Generator().manual_seed(seed)
        examples = labelled(60, torch.Generator().manual_seed(0))
        found = train_detector(*examples, config(updates=3, batch=8), generator)
        return found.predict(*examples[:2])

    assert torch.equal(train(0), train(0)) and not torch.equal(train(0), train(1))


def test_goes_on_from_an_earlier_detector(trained):
    examples = labelled(60, torch.Generator().manual_seed(0))
    still = config(updates=0, holdout=0.0)
    same = train_detector(*examples, still, torch.Generator(), start=trained)
    assert torch.equal(same.logits(*examples[:2]), trained.logits(*examples[:2]))
    with pytest.raises(UserError, match="other tasks"):
        train_detector(*examples, replace(still, tasks=[*NAMES, "more"]), torch.Generator(), start=trained)


def test_file_keeps_everything(trained, tmp_path):
    frames, task, _ = labelled(20, torch.Generator().manual_seed(3))
    kept = Detector("8", NAMES, trained.network, threshold=0.7, temperature=1.5, config=trained.config)
    kept.save(tmp_path / "detectors" / "8.pt")
    found = Detector.load(tmp_path / "detectors" / "8.pt")
    assert (found.version, found.tasks, found.threshold, found.temperature) == ("8", tuple(NAMES), 0.7, 1.5)
    assert torch.equal(found.predict(frames, task), kept.predict(frames, task))
    assert [path.name for path in (tmp_path / "detectors").iterdir()] == ["8.pt"]


def test_wrong_files_are_refused_in_one_line(trained, tmp_path):
    file = tmp_path / "file.pt"
    with pytest.raises(UserError, match="no success detector at"):
        Detector.load(file)
    file.write_bytes(b"not a file of torch")
    with pytest.raises(UserError, match="cannot be read"):
        Detector.load(file)
    torch.save({"format": 1}, file)
    with pytest.raises(UserError, match="is not a success detector"):
        Detector.load(file)
    trained.save(file)
    state = torch.load(file, weights_only=True)
    torch.save({**state, "format": 99}, file)
    with pytest.raises(UserError, match="format 99; this version reads 1"):
        Detector.load(file)
    torch.save({**state, "views": 3}, file)
    with pytest.raises(UserError, match="damaged"):
        Detector.load(file)
    trained.save(file)
    file.write_bytes(file.read_bytes()[:-2000])
    with pytest.raises(UserError, match="cannot be read"):
        Detector.load(file)


def test_a_detector_knows_what_it_was_taught(trained, tmp_path):
    assert trained.taught == tuple(NAMES)
    frames, _, _ = labelled(12, torch.Generator().manual_seed(3))
    task = torch.tensor([0] * 5 + [1] * 4 + [2] * 3)
    # Successes and failures of the first task, only failures of the second, only successes of the third.
    value = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0] + [0.0] * 4 + [1.0] * 3)
    for seed in range(5):  # the lone success is never what only sets the temperature
        some = config(updates=0, holdout=0.5)
        found = train_detector(frames, task, value, some, torch.Generator().manual_seed(seed))
        assert found.taught == ("lift-any",)
    found.save(tmp_path / "7.pt")
    assert Detector.load(tmp_path / "7.pt").taught == ("lift-any",)
    report = evaluate(found, frames, task, value)
    assert [row.task for row in report.tasks] == ["lift-any"]
    assert not wrong_objects(found, frames, dict.fromkeys(NAMES, value > 0.5))
    assert train_detector(frames, task, value, some, torch.Generator(), start=trained).taught == tuple(NAMES)

    state = torch.load(tmp_path / "7.pt", weights_only=True)
    torch.save({**state, "taught": ["lift-moon"]}, tmp_path / "7.pt")
    with pytest.raises(UserError, match="damaged"):
        Detector.load(tmp_path / "7.pt")
    del state["taught"]
    torch.save(state, tmp_path / "7.pt")
    assert Detector.load(tmp_path / "7.pt").taught == tuple(NAMES), "old files do not say"


def test_all_labels_of_an_outcome_are_on_one_side_of_the_temperatures_holdout():
    frames, _ = outcomes(40, torch.Generator().manual_seed(0))
    place = torch.arange(120) % 40  # each outcome is labelled for three tasks
    outcome = same_outcomes(frames[place], batch=7)
    assert [set(outcome[place == one].tolist()) for one in range(40)] == [{int(outcome[one])} for one in range(40)]
    assert len(outcome.unique()) == 40
    task, value = torch.arange(120) // 40, (place % 2).float()
    held = hold_out(outcome, label_kinds(task, value), 0.25, torch.Generator().manual_seed(1))
    assert int(held.sum()) == 3 * 10
    assert set(place[held].tolist()).isdisjoint(place[~held].tolist())


def test_what_sets_the_temperature_was_not_trained_on(monkeypatch):
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
    assert len(set(calibrated_on)) == 6
    assert set(trained_on) | set(calibrated_on) == set(range(30))
    assert not set(trained_on) & set(calibrated_on)


def test_threshold_and_chunks(trained):
    frames, task, _ = labelled(50, torch.Generator().manual_seed(4))
    probability = trained.predict(frames, task)
    assert_close(trained.predict(frames, task, batch=7), probability)
    strict = Detector("9", NAMES, trained.network, threshold=0.9, temperature=trained.temperature)
    assert torch.equal(strict.accepts(frames, task), probability > 0.9)


def test_views_from_above_are_turned_and_mirrored_and_the_others_left_alone():
    frames = torch.arange(2 * 3 * 3, dtype=torch.uint8).view(1, 2, 3, 3, 1).expand(400, 2, 3, 3, 3)
    seen = changed(frames, config(augment=AugmentConfig(), turned=[1]), torch.Generator().manual_seed(0))
    assert torch.equal(seen[:, 0], frames[:, 0])
    square = frames[0, 1]
    ways = [torch.rot90(one, quarter) for one in (square, square.flip(0)) for quarter in range(4)]
    counts = [int((seen[:, 1] == way).flatten(1).all(1).sum()) for way in ways]
    assert sum(counts) == 400 and min(counts) > 25  # eight ways, 50 of each to be expected
    with pytest.raises(UserError, match=r"turned=\[2\]: outcomes have views 0 to 1"):
        train_detector(frames[..., :3], torch.zeros(400, dtype=torch.long), torch.ones(400), config(turned=[2]), None)


def test_mistakes_of_the_caller_are_named(trained):
    frames, task, value = labelled(8, torch.Generator().manual_seed(5))
    with pytest.raises(UserError, match="judges 2 views"):
        trained.predict(frames[:, :1], task)
    with pytest.raises(UserError, match="does not know 'lift-can'; it knows lift-any, lift-red, lift-blue"):
        trained.index("lift-can")
    with pytest.raises(UserError, match="no labelled frames"):
        train_detector(frames[:0], task[:0], value[:0], config(), torch.Generator())
    with pytest.raises(UserError, match="only 1 tasks are named"):
        train_detector(frames, torch.ones_like(task), value, replace(config(), tasks=["lift-any"]), torch.Generator())


def test_scores_by_hand():
    probability = torch.tensor([0.9, 0.8, 0.3, 0.6, 0.2, 0.1])
    truth = torch.tensor([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    row = score("task", probability, truth)
    # Granted: the first two and the fourth. Hits 2 of 3, false 1 of 3.
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


def test_queues_for_a_person():
    probabilities = [0.9, 0.45, 0.1, 0.55, 0.6]
    assert uncertain_first(probabilities).tolist() == [1, 3, 4, 0, 2]
    assert uncertain_first(torch.tensor(probabilities), threshold=0.9).tolist()[0] == 0
    # Verdicts: yes, no, no, yes, yes. The first and third labels differ; 0.1 and 0.9 are as sure, then 0.6.
    assert disagreements([0, 0, 1, 1, 0], probabilities).tolist() == [2, 0, 4]
    assert disagreements([1, 0, 0, 1, 1], probabilities).tolist() == []
