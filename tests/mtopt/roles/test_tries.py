"""Attempts and successes by what acted."""

from dataclasses import replace

from helpers.detectors import save_detector
from helpers.episodes import make

from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.detector import Judge
from polytask.mtopt.records import Label
from polytask.mtopt.roles.orders import OWN, SCRIPT
from polytask.mtopt.roles.tries import Tries, count_tries
from polytask.mtopt.store import EpisodeStore
from polytask.mtopt.tasks import TASKS


def test_attempts_count_for_all_tasks_of_the_skill(config):
    store = EpisodeStore(config.root, StoreConfig(fsync=False))
    policies = (
        ("lift-any", "scripted-pick"),
        ("lift-can", "scripted-pick"),
        ("lift-any", "q:3"),
        ("lift-can", "q:3:lift-any"),
        ("lift-can", "q:3"),
        ("place-any", "q:3"),
    )
    with store.writer("a") as writer:
        for task, policy in policies:
            writer.append(replace(make(0, task=task), policy=policy))
    won = {1, 3, 4}
    store.add_labels([Label(e, t, float(e in won), "detector:d1") for e in range(1, 7) for t in config.learned])
    save_detector(config.detectors, "d1")
    judge = Judge(config.detectors, "cpu")
    found = count_tries(store, config.learned, TASKS, judge)
    assert found["lift-any"] == {SCRIPT: Tries(2, 1), OWN: Tries(2, 2), "lift-can": Tries(1, 0)}
    assert found["lift-can"] == {SCRIPT: Tries(2, 1), "lift-any": Tries(2, 2), OWN: Tries(1, 0)}
    assert found["place-any"] == {OWN: Tries(1, 0)}
    later = count_tries(store, config.learned, TASKS, judge, after=4)
    assert later["lift-any"] == {SCRIPT: Tries(2, 1), "lift-can": Tries(1, 0)}, "scripts count from the start"
    store.close()


def test_the_rate_without_attempts_is_zero():
    assert (Tries(4, 1).rate, Tries().rate) == (0.25, 0.0)
