"""Which episodes a page may ask about."""

import numpy as np
from helpers.episodes import make

from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.label import candidates
from polytask.mtopt.label.candidates import Candidates
from polytask.mtopt.label.queues import shuffled
from polytask.mtopt.store import EpisodeStore
from polytask.mtopt.tasks import TASKS


def add(store, *tasks):
    with store.writer("a") as writer:
        writer.append_many([make(1, task=task) for task in tasks])


def test_episodes_of_the_skill_come_in_a_fixed_random_order_that_grows(tmp_path, monkeypatch):
    monkeypatch.setattr(candidates, "CHUNK", 3)  # several reads
    store = EpisodeStore(tmp_path, StoreConfig(fsync=False))
    found = Candidates(store, TASKS, "skill")
    found.refresh()
    assert (found.count("lift-can"), list(found.shuffled("lift-can", ())), found.among("lift-can", [1])) == (
        0,
        [],
        set(),
    )
    add(store, "lift-any", "place-any", "lift-can", "unknown", "lift-can", "place-any", "lift-milk")
    assert found.count("lift-can") == 0, "until it is refreshed"
    found.refresh()
    lifts = np.array([1, 3, 5, 7])
    assert list(found.shuffled("lift-can", ())) == shuffled(lifts, "lift-can").tolist()
    assert list(found.shuffled("lift-can", {3, 5})) == [one for one in shuffled(lifts, "lift-can") if one in (1, 7)]
    assert found.among("lift-can", {0, 1, 2, 4, 7, 99}) == {1, 7}
    assert (found.count("lift-any"), found.count("place-any")) == (4, 2)
    add(store, "lift-any")
    found.refresh()
    grown = list(found.shuffled("lift-can", ()))
    assert (
        sorted(grown) == [1, 3, 5, 7, 8] and [one for one in grown if one != 8] == shuffled(lifts, "lift-can").tolist()
    )
    own = Candidates(store, TASKS, "orig")
    own.refresh()
    assert sorted(own.shuffled("lift-can", ())) == [3, 5]
    store.close()
