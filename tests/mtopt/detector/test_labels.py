"""The labels that train and measure detectors."""

import pytest
from helpers.episodes import make

from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.detector.labels import labels_by_task, lacking, split, stand_in_counts, teachable
from polytask.mtopt.records import Label
from polytask.mtopt.store import EpisodeStore


def test_labels_are_kept_aside_by_episode_for_ever():
    few = {"a": dict.fromkeys(range(500), True), "b": dict.fromkeys(range(300), False)}
    learned, held = split(few, 0.2)
    assert len(held["a"]) == pytest.approx(100, abs=25)
    assert set(learned["a"]) | set(held["a"]) == set(range(500))
    assert not set(learned["a"]) & set(held["a"])
    assert set(held["b"]) == {episode for episode in held["a"] if episode < 300}  # the same side for every task
    assert set(split({"a": dict.fromkeys(range(900), True)}, 0.2)[1]["a"]) >= set(held["a"])  # and later


def test_a_task_is_teachable_with_labels_of_both_kinds():
    labels = {"a": {1: True, 2: False}, "b": {1: True, 2: True}, "c": {3: False}, "d": {}}
    assert teachable(labels) == ("a",)


@pytest.mark.parametrize(
    ("learned", "held", "line"),
    [
        ({1: True, 2: False}, {}, None),
        (
            {1: False, 2: False},
            {3: True, 4: True, 5: True, 6: False},
            "its 3 successes are all kept aside to measure; label more (0 successes and 2 failures train a detector, "
            "3 and 1 only measure it)",
        ),
        ({1: True}, {2: False}, "its only failure is kept aside to measure; label more"),
        ({1: False}, {2: False}, "no success of it is labelled; label more (0 successes and 1 failures train"),
        ({}, {1: False, 2: False}, "its 2 failures are all kept aside"),
    ],
)
def test_what_a_task_lacks_is_said_with_the_counts_of_both_sides(learned, held, line):
    found = lacking(learned, held)
    assert found is None if line is None else found.startswith(line)


def test_people_outrank_the_stand_in_and_detectors_teach_nothing(tmp_path):
    store = EpisodeStore(tmp_path, StoreConfig(fsync=False))
    with store.writer("a") as writer:
        writer.append_many([make(seed) for seed in range(3)])
    store.add_labels([Label(1, "lift-any", 1.0, "person"), Label(2, "lift-any", 0.7, "detector:x")])
    store.add_labels([Label(one, "lift-any", 0.0, "oracle") for one in (1, 3)])
    assert labels_by_task(store) == {"lift-any": {1: True, 3: False}}
    store.close()


def test_uploaded_examples_always_train():
    labels = {"lift-any": dict.fromkeys(range(200), True)}
    aside = next(iter(split(labels, 0.2)[1]["lift-any"]))
    learned, held = split(labels, 0.2, examples=[aside])
    assert aside in learned["lift-any"] and aside not in held["lift-any"]


def test_labels_of_the_stand_in_are_never_counted_as_a_persons(tmp_path):
    store = EpisodeStore(tmp_path, StoreConfig(fsync=False))
    with store.writer("a") as writer:
        writer.append_many([make(seed) for seed in range(3)])
    store.add_labels([Label(number, "lift-any", 1.0, "oracle") for number in (1, 2)])
    store.add_labels([Label(number, "lift-any", 0.0, "person") for number in (2, 3)])
    assert stand_in_counts(store, labels_by_task(store)) == {"lift-any": 1}, "a person has judged the second, too"
    store.close()
