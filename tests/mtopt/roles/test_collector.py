"""Sequences of episodes, from an order to the store."""

import numpy as np
import pytest
import torch
from helpers.detectors import save_detector
from helpers.tiny_run import tiny

from polytask.mtopt.roles import Collector, Order, Trainer
from polytask.mtopt.roles.orders import OWN, SCRIPT
from polytask.mtopt.store import EpisodeStore
from polytask.mtopt.tasks import ALL_TASKS


def order(number, sources=SCRIPT, **changes):
    names = ("lift-any", "lift-can", "place-any")
    return Order(100 + number, sources if isinstance(sources, dict) else dict.fromkeys(names, sources), **changes)


@pytest.fixture
def collector(tmp_path):
    made = Collector(tiny(tmp_path))
    yield made
    made.close()


def contents(store):
    rows = store.rows()
    return [(row.task, row.policy, row.seed, store.read(row.id)) for row in rows]


def test_an_order_gives_the_same_episodes_after_any_other(collector, tmp_path):
    collector.step(order(0))
    assert collector.step(order(1))["episodes"] == 4
    other = Collector(tiny(tmp_path / "other"))
    other.step(order(1))
    first, second = contents(collector.store)[4:], contents(other.store)
    other.close()
    assert [row[:3] for row in first] == [row[:3] for row in second]
    for (*_, one), (*_, two) in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.images, two.images)
        np.testing.assert_array_equal(one.actions, two.actions)
        np.testing.assert_array_equal(one.outcome, two.outcome)


def test_what_an_earlier_process_stored_is_counted_and_not_collected_again(collector, tmp_path):
    collector.step(order(0))
    again = Collector(tiny(tmp_path), "second")
    assert again.step(order(0))["episodes"] == 4
    assert len(again.store) == 4
    assert again.step(order(1))["episodes"] == 4
    assert len(again.store) == 8
    again.close()


def test_picks_come_before_places_and_scripts_are_named(collector):
    found = collector.step(order(0))
    assert found["episodes/lift"] == found["episodes/place"] == 2
    rows = collector.store.rows()
    assert [row.policy for row in rows] == ["scripted-pick"] * 2 + ["scripted-place"] * 2
    assert all(row.task.startswith("lift") for row in rows[:2])
    assert [row.task for row in rows[2:]] == ["place-any"] * 2
    assert collector.store.truth(1).keys() == set(ALL_TASKS)


def test_without_handing_over_only_what_was_lifted_is_placed(tmp_path):
    config = tiny(tmp_path)
    config.collector.hand_over = False
    config.world.num_envs = 8
    collector = Collector(config)
    found = collector.step(order(0))
    lifted = sum(collector.store.truth(number)["lift-any"] for number in range(1, 9))
    collector.close()
    assert 0 < lifted < 8, "choose another seed"
    assert found["episodes/place"] == lifted


def test_learned_policies_are_named_after_weights_and_the_task_they_act_for(collector, tmp_path):
    collector.config.world.num_envs = 2
    trainer = Trainer(collector.config)
    assert trainer.version == 1
    collector.step(order(0, {"lift-any": OWN, "lift-can": "lift-any", "place-any": SCRIPT}))
    rows = collector.store.rows()
    wanted = {"lift-any": "q:1", "lift-can": "q:1:lift-any", "place-any": "scripted-place"}
    assert [row.policy for row in rows] == [wanted[row.task] for row in rows]
    trainer.publish()
    for number in range(1, 9):
        collector.step(order(number, tries_own=True))
    tried = [row.policy for row in collector.store.rows()[4:]]
    assert set(tried) == {"q:2", "scripted-pick", "scripted-place"}
    assert 8 <= tried.count("q:2") <= 24  # half of 32, by lot


def test_a_detector_grades_every_task_of_every_episode(collector):
    detector = save_detector(collector.config.detectors, "d7", views=3)
    assert collector.step(order(0))["graded"] == 4
    labels = collector.store.labels(source="detector:d7")
    assert {(one.episode, one.task) for one in labels} == {
        (episode, task) for episode in range(1, 5) for task in ("lift-any", "lift-can", "place-any")
    }
    frames = torch.from_numpy(collector.store.outcome(3))[None]
    said = detector.predict(frames, torch.tensor([ALL_TASKS.index("lift-can")]))
    stored = next(one.value for one in labels if (one.episode, one.task) == (3, "lift-can"))
    assert stored == pytest.approx(float(said), abs=1e-5)


def test_a_detector_grades_only_what_it_was_taught(collector):
    save_detector(collector.config.detectors, "d7", views=3, taught=["lift-can"])
    assert collector.step(order(0))["graded"] == 4
    assert {one.task for one in collector.store.labels(source="detector:d7")} == {"lift-can"}
    save_detector(collector.config.detectors, "d8", views=3, taught=["lift-milk"])
    assert collector.step(order(1))["graded"] == 0, "nothing that is learned here"


def test_the_store_outlives_a_collector_that_never_closed(tmp_path):
    collector = Collector(tiny(tmp_path))
    collector.step(order(0))
    reader = EpisodeStore(tmp_path)
    assert len(reader) == 4
    assert reader.check(deep=True).is_sound
    reader.close()
    collector.close()
