"""Counts that are remembered by blocks of episodes equal those that are counted from all rows."""

import math
import random
from collections import Counter
from dataclasses import replace

import pytest
from helpers.episodes import make

from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.records import Label
from polytask.mtopt.store import EpisodeStore, label_table, tallies

TASKS = ("lift-any", "lift-can", "place-any")
COUNT = 26  # six blocks of four, and two more


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(tallies, "BLOCK", 4)
    monkeypatch.setattr(label_table, "AT_ONCE", 3)
    store = EpisodeStore(tmp_path, StoreConfig(fsync=False))
    with store.writer("a") as writer:
        for seed in range(COUNT):
            one = make(seed % 5, steps=0 if seed == 6 else 2, task=TASKS[seed % 3])
            writer.append(replace(one, policy=("scripted-pick", "q:3")[seed % 2]))
    yield store
    store.close()


def counted(store, task, detector, threshold, after):
    """Count from all rows, as the tables of one block do not."""
    found = Counter()
    rows = {row.id: row for row in store.rows()}
    for episode, won in store.rewards(task, detector, threshold).items():
        row = rows[episode]
        if row.length:
            found[row.task, row.policy, episode > after, "all"] += 1
            found[row.task, row.policy, episode > after, "won"] += won
    return +found


def remembered(store, task, detector, threshold, after):
    found = Counter()
    for one in store.tally(task, detector, threshold, after=after):
        found[one.commanded, one.policy, one.is_later, "all"] += one.episodes
        found[one.commanded, one.policy, one.is_later, "won"] += one.successes
    return +found


def test_counts_follow_every_label_in_any_block(store):
    chance = random.Random(0)
    for _ in range(60):
        episodes = chance.sample(range(1, COUNT + 1), 5)
        source = chance.choice(("person", "detector:d1", "detector:d1", "detector:d2", "oracle"))
        value = math.nan if source == "person" and chance.random() < 0.3 else chance.random()
        store.add_labels([Label(one, chance.choice(TASKS), value, source) for one in episodes])
        for task in TASKS:
            after = chance.randrange(COUNT + 3)
            assert remembered(store, task, "d1", 0.4, after) == counted(store, task, "d1", 0.4, after)
    assert remembered(store, "lift-any", "d1", 0.8, 0) == counted(store, "lift-any", "d1", 0.8, 0), "other threshold"


def test_a_second_count_looks_only_at_the_last_block(store, monkeypatch):
    store.add_labels([Label(one, "lift-any", 0.9, "detector:d1") for one in range(1, COUNT + 1)])
    before = store.tally("lift-any", "d1", 0.5)
    seen = []
    fetch = store._index.fetch
    monkeypatch.setattr(store._index, "fetch", lambda query, values=(): seen.append(values) or fetch(query, values))
    monkeypatch.setattr(store._index, "transaction", None)  # nothing is left to remember
    assert store.tally("lift-any", "d1", 0.5) == before
    spans = [(one["low"], one["high"]) for one in seen if isinstance(one, dict)]
    assert (24, 26) in spans and all(span in ((24, 26), (0, 6)) for span in spans)


def test_episodes_are_counted_by_task_and_policy(store):
    rows = store.rows()
    for _ in range(2):
        assert store.counts_by("task") == dict(sorted(Counter(row.task for row in rows).items()))
        assert store.counts_by("policy") == dict(sorted(Counter(row.policy for row in rows).items()))
    with store.writer("b") as writer:
        writer.append(make(1, task="lift-any"))
    assert sum(store.counts_by("task").values()) == len(store) == COUNT + 1


def test_blocks_are_judged_when_every_episode_with_actions_has_a_verdict(store):
    tasks = TASKS[:2]
    label = [Label(one, task, 0.5, "detector:d1") for one in range(1, 13) for task in tasks]
    store.add_labels([one for one in label if one.episode != 7 and (one.episode, one.task) != (10, tasks[0])])
    for episode in (4, 8, 12):  # 7 is an upload, without actions
        store.mark_judged(tasks, "d1", episode)
    assert store.judged_until(tasks, "d1", 0) == 8, "episode 10 lacks a verdict"
    assert store.judged_until(tasks[1:], "d1", 0) == 12
    assert store.judged_until(tasks, "d1", 5) == 8 and store.judged_until(tasks, "d1", 13) == 13
    assert store.judged_until(tasks, "d2", 0) == store.judged_until((), "d1", 0) == 0
    store.prune_verdicts("d2")
    assert store.judged_until(tasks, "d1", 0) == 0, "its verdicts are gone"


def test_pruning_leaves_people_and_the_detector_in_use(store):
    for source in ("person", "oracle", "detector:d1", "detector:d2"):
        store.add_labels([Label(one, task, 1.0, source) for one in range(1, 11) for task in TASKS])
    store.tally("lift-any", "d1", 0.5)
    assert store.prune_verdicts("d2") == 30
    assert Counter(one.source for one in store.labels()) == {"person": 30, "oracle": 30, "detector:d2": 30}
    assert store.prune_verdicts("d2") == 0
    assert sum(one.episodes for one in store.tally("lift-any", "d1", 0.5)) == 9, "people's labels still count"


def test_an_index_of_an_earlier_version_gets_what_it_lacks(store, tmp_path):
    with store._index.transaction() as connection:
        for what in ("TABLE tally", "TABLE judged", "INDEX episode_seed", "INDEX episode_upload"):
            connection.execute(f"DROP {what}")
    store.close()
    again = EpisodeStore(tmp_path, StoreConfig(fsync=False))
    assert sum(again.counts_by("task").values()) == COUNT
    assert again.count_seed(3) == 5 and again.examples() == [7]
    again.close()


def test_labels_of_people_are_found_without_a_look_at_all_verdicts(store):
    labels = [Label(one, task, 0.5, "detector:d1") for one in range(1, COUNT + 1) for task in TASKS]
    for _ in range(40):
        store.add_labels(labels)
    store.add_labels([Label(1, "lift-can", 1.0, "person")])
    looks = []
    with store._index.session() as connection:
        connection.set_progress_handler(lambda: looks.append(1) and None, 100)  # after every 100 instructions
        assert store.label_counts("person") == {"lift-can": 1}
        assert store.labels(source="person") == [Label(1, "lift-can", 1.0, "person")]
        connection.set_progress_handler(None, 0)
    assert len(looks) < 20, "there are 3,120 verdicts"
