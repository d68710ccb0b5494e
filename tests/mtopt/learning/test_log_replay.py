"""From the store to the buffers."""

from functools import partial

import pytest
import torch
from helpers.episodes import make

from polytask.errors import UserError
from polytask.mtopt.config.learning import ReplayConfig, SharingConfig
from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.learning.buffers import TaskBuffers
from polytask.mtopt.learning.log_replay import LogReplay, StepCounts
from polytask.mtopt.records import Label, TaskInfo
from polytask.mtopt.store import EpisodeStore, episode_of_pictures

SKILLS = {"lift-any": "lift", "lift-can": "lift", "place-any": "place"}
TASKS = {name: TaskInfo(name, skill, "") for name, skill in SKILLS.items()}
COMMANDED = ("lift-any", "lift-can", "place-any", "lift-any")
WON = {("lift-any", 1), ("lift-can", 1), ("place-any", 3), ("lift-any", 4)}


@pytest.fixture
def store(tmp_path):
    with_store = EpisodeStore(tmp_path, StoreConfig(fsync=False))
    with with_store.writer("a") as writer:
        writer.append_many([make(seed, task=task) for seed, task in enumerate(COMMANDED)])
        writer.append(episode_of_pictures(make(9).outcome, "lift-any"))
    yield with_store
    with_store.close()


def judge(store, episodes=range(1, 5), won=WON, version="v1"):
    labels = [Label(one, task, float((task, one) in won), f"detector:{version}") for one in episodes for task in TASKS]
    store.add_labels(labels)


def replay(store, version="v1", tasks=tuple(TASKS), capacity=100, **config):
    buffers = TaskBuffers(tasks, (8, 8), ReplayConfig(capacity=capacity))

    def rewards(task, after, until):
        return store.rewards(task, version, after=after, until=until)

    return LogReplay(store, buffers, TASKS, rewards, SharingConfig(**config))


def outcomes(log):
    return {task: counts[:2] for task, counts in log.buffers.counts().items()}


@pytest.mark.parametrize(
    ("strategy", "wanted"),
    [
        ("orig", {"lift-any": (2, 0), "lift-can": (0, 1), "place-any": (1, 0)}),
        ("skill", {"lift-any": (2, 1), "lift-can": (1, 2), "place-any": (1, 0)}),
        ("all", {"lift-any": (2, 2), "lift-can": (1, 3), "place-any": (1, 3)}),
    ],
)
def test_the_buffers_hold_what_the_strategy_says(store, strategy, wanted):
    judge(store)
    log = replay(store, strategy=strategy)
    pairs = sum(sum(pair) for pair in wanted.values())
    assert log.step() == StepCounts(read=5, added=4, shared=pairs, skipped=1, waiting=0)
    assert outcomes(log) == wanted


def test_steps_of_any_size_give_the_same(store):
    judge(store)
    whole, parts = replay(store), replay(store)
    whole.step()
    sizes = []
    while (done := parts.step(limit=2)).read:
        sizes.append(done.read)
    assert sizes == [2, 2, 1]
    assert parts.buffers.episodes == whole.buffers.episodes == (1, 2, 3, 4)
    one, other = (log.buffers.sample(50, torch.Generator().manual_seed(0)) for log in (whole, parts))
    assert all(torch.equal(*pair) for pair in zip(one, other, strict=True))


def test_a_step_reads_and_copies_its_episodes_together(store, monkeypatch):
    judge(store)
    log, calls = replay(store), []
    read_many, write = store.read_many, TaskBuffers._write
    monkeypatch.setattr(store, "read_many", lambda numbers, **how: calls.append(numbers) or read_many(numbers, **how))
    monkeypatch.setattr(TaskBuffers, "_write", lambda self, *given: calls.append("write") or write(self, *given))
    log.step()
    assert calls == [[1, 2, 3, 4], "write"]


def test_reading_again_where_not_all_fit_is_as_one_by_one(store):
    """Episodes of four frames: two of them are held, and those that are read again push them out."""
    judge(store)
    whole, single = (replay(store, capacity=9) for _ in range(2))
    for log, limit in ((whole, 1000), (single, 1)):
        for _ in range(2):
            log.rewind()
            while log.step(limit).read:
                pass
    assert whole.buffers.episodes == single.buffers.episodes == (3, 4)
    one, other = (log.buffers.sample(50, torch.Generator().manual_seed(0)) for log in (whole, single))
    assert all(torch.equal(*pair) for pair in zip(one, other, strict=True))


def test_what_newer_episodes_replaced_is_not_read_again(store, monkeypatch):
    judge(store, episodes=(1, 2, 4))
    log, calls = replay(store, capacity=9, wait=False), []
    read_many = store.read_many
    monkeypatch.setattr(store, "read_many", lambda numbers, **how: calls.append(numbers) or read_many(numbers, **how))
    log.step()
    assert log.buffers.episodes == (2, 4)
    log.rewind()
    assert log.step() == StepCounts(read=4, added=2, shared=4, skipped=2, waiting=0)
    assert calls == [[1, 2, 4]], "those that are held have their frames, and the first would not stay"
    judge(store, episodes=(3,))
    log.rewind()
    log.step()
    assert set(log.buffers.episodes) == {3, 4}, "one that was skipped is newer than one that is held"
    log.rewind()
    assert log.last == 2
    early = replay(store)
    early.buffers.add(4, make(3), {"lift-any": True})
    early.rewind()
    assert early.last == 0, "nothing was replaced: older ones may only have lacked a verdict"


def test_where_not_all_fit_a_resumed_run_draws_what_one_that_never_stopped_draws(store):
    """Seven rows, of which reading all four episodes again would leave the newest in the first one."""
    judge(store)
    log, fresh = (replay(store, capacity=15) for _ in range(2))
    log.step()
    log.rewind()
    log.step()
    fresh.step()
    assert log.buffers.episodes == fresh.buffers.episodes == (2, 3, 4)
    one, other = (each.buffers.sample(50, torch.Generator().manual_seed(0)) for each in (log, fresh))
    assert all(torch.equal(*pair) for pair in zip(one, other, strict=True))


def test_an_episode_of_an_unknown_task_is_named(store):
    with store.writer("b") as writer:
        number = writer.append(make(0, task="juggle"))
    judge(store)
    with pytest.raises(UserError, match=f"unknown task of episode {number} 'juggle'; known: lift-any, "):
        replay(store).step()


def test_it_waits_for_a_verdict_and_keeps_the_order(store):
    judge(store, episodes=(1, 3, 4))
    log = replay(store)
    assert log.step() == StepCounts(read=1, added=1, shared=2, skipped=0, waiting=4)
    assert log.step() == StepCounts(read=0, added=0, shared=0, skipped=0, waiting=4)
    judge(store, episodes=(2,))
    assert log.step() == StepCounts(read=4, added=3, shared=5, skipped=1, waiting=0)
    assert log.buffers.episodes == (1, 2, 3, 4)


def test_it_need_not_wait(store):
    judge(store, episodes=(1, 3, 4))
    log = replay(store, wait=False)
    assert log.step() == StepCounts(read=5, added=3, shared=5, skipped=2, waiting=0)
    assert log.buffers.episodes == (1, 3, 4)


def test_it_waits_for_some_tasks_only(store):
    labels = [Label(one, "lift-any", 1.0, "detector:v1") for one in (1, 2, 4)]
    store.add_labels([*labels, Label(2, "lift-can", 1.0, "person")])
    log = replay(store)
    log.awaited = ("lift-any",)
    assert log.step() == StepCounts(read=5, added=3, shared=4, skipped=2, waiting=0)
    assert outcomes(log) == {"lift-any": (3, 0), "lift-can": (1, 0), "place-any": (0, 0)}


def test_tasks_that_are_not_learned_still_lend_their_episodes(store):
    judge(store)
    log = replay(store, tasks=("lift-can",))
    log.step()
    assert outcomes(log) == {"lift-can": (1, 2)}
    assert log.buffers.episodes == (1, 2, 4)  # the place has nothing for it


def test_a_new_detector_changes_the_verdicts_of_what_is_held(store):
    judge(store)
    log = replay(store, version="v1")
    log.step()
    judge(store, won=WON | {("lift-any", 2)}, version="v2")
    log.rewards = partial(_rewards, store, "v2")
    assert log.relabel() == 1
    assert outcomes(log) == {"lift-any": (3, 0), "lift-can": (1, 2), "place-any": (1, 0)}
    assert log.relabel() == 0


def test_reading_again_takes_no_episode_twice(store):
    judge(store)
    log = replay(store)
    log.step()
    before = log.buffers.counts()
    log.rewind()
    assert log.step().added == 4
    assert log.buffers.counts() == before


def test_wrong_settings_fail_at_once(store):
    with pytest.raises(UserError, match="unknown sharing strategy 'some'; known: orig, all, skill"):
        replay(store, strategy="some")
    with pytest.raises(UserError, match="unknown task 'juggle'; known: lift-any"):
        replay(store, tasks=("juggle",))


def _rewards(store, version, task, after, until):
    return store.rewards(task, version, after=after, until=until)
