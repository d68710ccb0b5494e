"""A tiny run, and a store of twelve lifts for it."""

from dataclasses import replace

import pytest
from helpers.episodes import make
from helpers.tiny_run import tiny

from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.roles import BellmanUpdater, Trainer
from polytask.mtopt.store import EpisodeStore, episode_of_pictures

TRUTH = {"lift-any": True, "lift-can": False, "place-any": False}


@pytest.fixture
def config(tmp_path):
    return tiny(tmp_path)


@pytest.fixture
def store(config):
    """Hold 12 lifts, the even ones successes, and an upload."""
    made = EpisodeStore(config.root, StoreConfig(fsync=False))
    with made.writer("a") as writer:
        for number in range(12):
            truth = {**TRUTH, "lift-any": number % 2 == 0}
            writer.append(replace(make(number, task="lift-any", size=12, truth=truth), policy="scripted-pick"))
        writer.append(episode_of_pictures(make(0, size=12).outcome, "lift-any"))
    yield made
    made.close()


@pytest.fixture
def trainer(config):
    return Trainer(config)


@pytest.fixture
def updater(config, trainer):
    made = BellmanUpdater(config)
    made.sync()
    return made
