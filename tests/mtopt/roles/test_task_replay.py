"""From the store to batches, by the verdicts that count."""

import re

import pytest
import torch
from helpers.detectors import save_detector
from helpers.episodes import make

from polytask.errors import UserError
from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.records import Label
from polytask.mtopt.roles import TaskReplay
from polytask.mtopt.store import EpisodeStore, episode_of_pictures
from polytask.mtopt.tasks import ALL_TASKS


def test_the_replay_follows_people_then_the_detector_and_counts_in_all_tasks(config):
    store = EpisodeStore(config.root, StoreConfig(fsync=False))
    with store.writer("a") as writer:
        made = [make(seed, task=task, size=16) for seed, task in enumerate(("lift-any", "lift-can", "place-any"))]
        writer.append_many([*made, episode_of_pictures(made[0].outcome, "lift-any")])
    store.add_labels([Label(1, "lift-any", 1.0, "person")])
    replay = TaskReplay(config)
    replay.fill()
    assert replay.buffers.episodes == (1,), "without a detector only what people labelled"
    assert replay.detector == ""
    batch = replay.sample(8, torch.Generator().manual_seed(0))
    assert set(batch.task.tolist()) == {ALL_TASKS.index("lift-any")}
    assert set(batch.policy.tolist()) == {0}

    save_detector(config.detectors, "d1")
    store.add_labels([Label(e, t, float(e == 2), "detector:d1") for e in (1, 2, 3) for t in config.learned])
    replay.fill()
    assert replay.detector == "d1"
    assert replay.buffers.episodes == (1, 2, 3), "the upload has nothing to learn from"
    counts = {task: count[:2] for task, count in replay.buffers.counts().items()}
    # A person said that 1 is a success of lift-any; the detector says that 2 is one of everything.
    assert counts == {"lift-any": (2, 0), "lift-can": (1, 1), "place-any": (0, 1)}
    replay.close()
    store.close()


def test_the_replay_does_not_wait_for_verdicts_on_tasks_that_no_detector_was_taught(config):
    store = EpisodeStore(config.root, StoreConfig(fsync=False))
    with store.writer("a") as writer:
        writer.append_many([make(seed, task="lift-any", size=16) for seed in range(3)])
    save_detector(config.detectors, "d1", taught=["lift-any"])
    store.add_labels([Label(episode, "lift-any", 1.0, "detector:d1") for episode in (1, 2)])
    store.add_labels([Label(1, "lift-can", 0.0, "person")])
    replay = TaskReplay(config)
    replay.fill()
    assert replay.buffers.episodes == (1, 2), "the third waits: its verdict on lift-any is to come"
    counts = {task: count[:2] for task, count in replay.buffers.counts().items()}
    assert counts == {"lift-any": (2, 0), "lift-can": (0, 1), "place-any": (0, 0)}
    replay.close()
    store.close()


def test_a_detector_that_may_reward_no_task_is_one_line_that_says_what_to_do(config):
    store = EpisodeStore(config.root, StoreConfig(fsync=False))
    with store.writer("a") as writer:
        writer.append_many([make(seed, task="lift-any", size=16) for seed in range(3)])
    refused = {"lift-any": "3 labels measure it", "lift-can": "too imprecise", "place-any": "too imprecise"}
    save_detector(config.detectors, "d1", refused=refused)
    replay, generator = TaskReplay(config), torch.Generator().manual_seed(0)
    replay.fill()
    why = "lift-any: 3 labels measure it (and 2 more tasks)"
    line = f"no task has a reward: {why}; `polytask label run_dir={config.run_dir}`, then"
    with pytest.raises(UserError, match=re.escape(line)):
        replay.sample(8, generator)
    store.add_labels([Label(1, "lift-any", 1.0, "person")])
    replay.log.restart()
    replay.fill()
    assert len(replay.sample(8, generator).task) == 8, "people's labels are rewards"
    replay.close()
    store.close()
