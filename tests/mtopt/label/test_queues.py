"""The order of the questions."""

import numpy as np
import pytest

from polytask.mtopt.detector.labels import is_held_out
from polytask.mtopt.label import queues
from polytask.mtopt.seeds import uniform_hash


def new(episodes, task):
    return queues.shuffled(np.array(episodes, np.int64), task).tolist()


def test_new_orders_by_the_hash_of_the_episode():
    episodes = [0, 7, 2**62 + 5, 2**63 - 1]
    assert new(episodes, "a") == sorted(episodes, key=lambda episode: uniform_hash(episode, "a"))
    assert new([], "a") == queues.due_again([], "a", 0.1, done=()) == []


def test_new_keeps_its_order_as_the_store_grows_and_differs_between_tasks():
    few, many = new(range(50), "a"), new(range(80), "a")
    assert [episode for episode in many if episode < 50] == few
    assert sorted(few) == list(range(50))
    assert few != sorted(few)
    assert few != new(range(50), "b")


def test_episodes_that_train_come_first_and_keep_their_order():
    order = new(range(60), "a")
    held = is_held_out(order, 0.3)
    trains, aside = [one for one in order if one not in held], [one for one in order if one in held]
    assert queues.training_first(iter(order), 0.3, 10) == trains[:10]
    assert queues.training_first(iter(order), 0.3, 60) == [*trains, *aside], "those that measure come last"
    assert queues.training_first(iter(order), 0.0, 10) == order[:10]
    assert queues.training_first(iter([]), 0.3, 10) == []


def test_uncertain_puts_one_half_first_and_leaves_out_the_unseen():
    assert queues.uncertain([1, 2, 3, 4], {1: 0.9, 2: 0.52, 3: 0.3}, 0.5) == [2, 3, 1]


def test_likely_puts_success_first():
    assert queues.likely([1, 2, 3, 4], {1: 0.2, 2: 0.52, 3: 0.9}) == [3, 2, 1]


def test_disagrees_names_contradicted_labels_by_how_sure_the_detector_is():
    labels = {1: True, 2: False, 3: True, 4: False}
    assert queues.disagrees(labels, {1: 0.4, 2: 0.97, 3: 0.8, 4: 0.1}, threshold=0.5) == [2, 1]
    assert queues.disagrees(labels, {1: 0.4, 2: 0.97, 3: 0.8, 4: 0.1}, threshold=0.85) == [1, 2, 3]


def test_a_tenth_of_the_labels_is_due_again_once():
    due = queues.due_again(range(2000), "a", 0.1, done=())
    assert len(due) == pytest.approx(200, abs=30)
    assert set(queues.due_again(range(2000), "a", 0.1, done=due[:50])) == set(due[50:])
    assert set(due) != set(queues.due_again(range(2000), "b", 0.1, done=()))


def test_second_questions_hide_among_first_ones():
    mixed = queues.interleave(range(100, 200), range(10), count=20)
    again = [episode for episode in mixed if episode < 100]
    assert len(mixed) == 20
    assert sorted(again) == [0, 1, 2, 3]  # one in five at most
    assert [episode for episode in mixed if episode >= 100] == list(range(100, 116))
    assert mixed[:4] != again
    assert queues.interleave([], [1, 2], count=20) == []  # alone, they would show
