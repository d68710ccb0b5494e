"""Training and measuring on the labelled episodes of a store."""

from dataclasses import replace

import pytest
import torch
from helpers.episodes import make
from helpers.outcomes import NAMES, config, outcomes

from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.detector import Detector
from polytask.mtopt.detector.folder import figures_path, newest, scores_path
from polytask.mtopt.detector.labelled import admit, compare, judge_episodes, measure, publish, train_on_labels
from polytask.mtopt.detector.metrics import score
from polytask.mtopt.store import EpisodeStore


def test_rows_are_for_tasks_with_labels(trained):
    rows = compare(
        {"a": {1: True}, "b": {}, "c": {}},
        {"a": {2: False, 3: True, 5: True}, "b": {}, "c": {4: True}},
        {},
        {},
        detector=trained,
        least_precision=0.6,
        stand_in={"a": 1},
    )
    assert [(row.task, row.labels, row.by_stand_in, row.held_successes, row.held_failures) for row in rows] == [
        ("a", 1, 1, 2, 1),
        ("c", 0, 0, 1, 0),
    ]
    assert rows[0].precision_after is None
    assert not rows[0].is_used and rows[0].why.startswith("its only failure is kept aside to measure")


def test_a_task_that_is_refused_is_shown_with_its_reason(trained):
    detector = Detector("7", NAMES, trained.network, config=trained.config)
    scores = {"lift-any": score("lift-any", torch.ones(30), (torch.arange(30) < 6).float())}  # 6 of 30 are right
    admit(detector, scores, config(least_precision=0.6, least_tested=0))
    assert detector.used == tuple(name for name in NAMES if name != "lift-any")
    held = {"lift-any": {number: number < 6 for number in range(30)}}
    (row,) = compare({"lift-any": {}}, held, {}, scores, detector=detector, least_precision=0.6)
    assert not row.is_used and row.why.startswith("of 30 random outcomes that it calls successes, 6 are")
    admit(detector, scores, config(least_precision=0.2, least_tested=0))
    assert detector.refused == {}
    admit(detector, scores, config(least_precision=0.2, least_tested=30))
    assert detector.used == ("lift-any",), "nothing has tested the other tasks"


def test_training_continues_from_a_detector_of_the_same_shape(store, trained):
    labels = {"lift-any": {number: store.truth(number)["lift-any"] for number in range(1, 21)}}
    settings = config(updates=1, batch=8, lr=1e-9, weight_decay=0.0)
    go_on = train_on_labels(store, labels, settings, "cpu", 3, start=trained)
    fresh = train_on_labels(store, labels, settings, "cpu", 3)
    frames, task = torch.from_numpy(store.outcomes([1, 2])), torch.zeros(2, dtype=torch.long)
    assert torch.allclose(go_on.logits(frames, task), trained.logits(frames, task), atol=1e-3)
    assert not torch.allclose(fresh.logits(frames, task), trained.logits(frames, task), atol=1e-2)
    other = replace(config(updates=1, batch=8), tasks=[*NAMES, "one-more"])
    assert train_on_labels(store, labels, other, "cpu", 3, start=trained).tasks[-1] == "one-more", "another shape"


@pytest.fixture
def store(tmp_path):
    """Hold 30 outcomes, with the truth of what was lifted."""
    frames, truth = outcomes(30, torch.Generator().manual_seed(0))
    made = EpisodeStore(tmp_path, StoreConfig(fsync=False))
    with made.writer("a") as writer:
        for number, (outcome, won) in enumerate(zip(frames.numpy(), truth.tolist(), strict=True)):
            writer.append(replace(make(number), outcome=outcome, truth=dict(zip(NAMES, won, strict=True))))
    yield made
    made.close()


def test_a_detector_judges_and_is_measured_on_the_episodes_of_a_store(store, trained):
    wanted = {"lift-red": [3, 1, 2], "lift-any": [2], "unknown": [1]}
    found = judge_episodes(trained, store, wanted, "cpu")
    assert {task: set(each) for task, each in found.items()} == {"lift-red": {1, 2, 3}, "lift-any": {2}}
    frames = torch.from_numpy(store.outcomes([1, 2, 3]))
    said = trained.predict(frames, torch.full((3,), NAMES.index("lift-red")))
    assert [found["lift-red"][number] for number in (1, 2, 3)] == pytest.approx(said.tolist(), abs=1e-5)
    held = {"lift-red": {number: store.truth(number)["lift-red"] for number in range(1, 31)}, "lift-any": {}}
    scores = measure(trained, store, held, "cpu")
    assert list(scores) == ["lift-red"]
    assert scores["lift-red"].count == 30 and scores["lift-red"].balanced_accuracy > 0.8


def test_training_reads_the_labelled_outcomes(store):
    labels = {"lift-any": {number: store.truth(number)["lift-any"] for number in range(1, 21)}, "lift-red": {5: False}}
    shares = []
    settings = config(updates=4, batch=8)
    first = train_on_labels(store, labels, settings, "cpu", 3, shares.append)
    again = train_on_labels(store, labels, settings, "cpu", 3)
    assert (first.version, first.tasks, first.taught) == ("7", tuple(NAMES), ("lift-any",))
    assert shares == [0.0, 0.25, 0.5, 0.75]
    frames, task = torch.from_numpy(store.outcomes([1, 2])), torch.zeros(2, dtype=torch.long)
    assert torch.equal(first.logits(frames, task), again.logits(frames, task))


def test_a_kill_leaves_no_detector_without_figures(tmp_path, trained, monkeypatch):
    folder = tmp_path / "detectors"
    rows = compare({"lift-any": {1: True}}, {"lift-any": {2: False}}, {}, {}, detector=trained, least_precision=0.6)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("polytask.mtopt.detector.labelled.write_text", interrupt)
        publish(trained, rows, folder)
    assert newest(folder) is None
    publish(trained, rows, folder)
    assert (newest(folder), figures_path(folder, "7").exists(), scores_path(folder, "7").exists()) == ("7", True, False)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Detector, "save", interrupt)
        publish(trained, rows, folder, {})
    assert scores_path(folder, "7").exists()


def interrupt(*_):
    raise KeyboardInterrupt
