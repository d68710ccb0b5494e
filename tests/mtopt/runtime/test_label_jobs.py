"""The jobs that make labels, detectors and verdicts."""

from dataclasses import replace

import pytest
from helpers.episodes import make
from helpers.tiny_run import tiny

from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.records import Label
from polytask.mtopt.roles.orders import SCRIPT
from polytask.mtopt.runtime.label_jobs import LabelJobs
from polytask.mtopt.store import EpisodeStore

pytest.importorskip("fastapi")


def test_labels_then_a_detector_then_verdicts(tmp_path):
    config = tiny(tmp_path, tasks=["lift-any"])
    store = EpisodeStore(config.root, StoreConfig(fsync=False))
    with store.writer("a") as writer:
        for number in range(12):
            episode = make(number, size=12, truth={"lift-any": number % 2 == 0})
            writer.append(replace(episode, policy="scripted-pick"))
    jobs = LabelJobs(config)
    assert jobs.is_ready(), "the stand-in can label at any time"
    config.labels.per_task = 12
    assert jobs.label(0)["labels"] == 12
    assert jobs.train_detector("run-1")["taught"] == 1
    metrics, tries = jobs.grade(0)
    assert metrics == {"episodes": 12.0, "labels": 12.0, "last": 12.0}
    assert list(tries["lift-any"]) == [SCRIPT] and tries["lift-any"][SCRIPT].episodes == 12
    config.labels.who = "person"
    assert not jobs.is_ready()
    store.add_labels([Label(number, "lift-any", float(number % 2), "person") for number in (1, 2)])
    assert jobs.is_ready()
    store.close()
