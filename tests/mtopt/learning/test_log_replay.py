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
    assert log.step() == StepCounts(read=5, listed=4, shared=pairs, skipped=1, waiting=0)
    assert len(log.buffers) == 0, "a step reads no pictures"
    assert log.refill() == 4
    assert outcomes(log) == wanted


def test_steps_of_any_size_give_the_same(store):
    judge(store)
    whole, parts = replay(store), replay(store)
    whole.step()
    sizes = []
    while (done := parts.step(limit=2)).read:
        sizes.append(done.read)
    assert sizes == [2, 2, 1]
    whole.refill()
    parts.refill()
    assert parts.buffers.episodes == whole.buffers.episodes == (1, 2, 3, 4)
    one, other = (log.buffers.sample(50, torch.Generator().manual_seed(0)) for log in (whole, parts))
    assert all(torch.equal(*pair) for pair in zip(one, other, strict=True))


def test_a_refill_reads_and_copies_its_episodes_together(store, monkeypatch):
    judge(store)
    log, calls = replay(store), []
    read_many, write = store.read_many, TaskBuffers._write
    monkeypatch.setattr(store, "read_many", lambda numbers, **how: calls.append(numbers) or read_many(numbers, **how))
    monkeypatch.setattr(TaskBuffers, "_write", lambda self, *given: calls.append("write") or write(self, *given))
    log.step()
    log.refill()
    assert calls == [[1, 2, 3, 4], "write"]
    log.refill()
    assert len(calls) == 2, "those that are held have their frames"


@pytest.fixture
def long_log(tmp_path):
    """Twenty successes of lift-can, then two hundred other lifts, of which every second is a success of lift-any."""
    store = EpisodeStore(tmp_path, StoreConfig(fsync=False))
    with store.writer("a") as writer:
        writer.append_many([make(seed, task="lift-any") for seed in range(220)])
    won = {(task, number) for number in range(1, 21) for task in ("lift-any", "lift-can")}
    judge(store, range(1, 221), won | {("lift-any", number) for number in range(21, 221, 2)})
    yield store
    store.close()


def listed(store, **options):
    log = replay(store, **options)
    while log.step().read:
        pass
    return log


def test_rare_successes_are_still_drawn_after_many_episodes(long_log):
    """A buffer for 60 of 220 episodes of four frames; a ring would hold the last 60."""
    log = listed(long_log, capacity=240)
    for turn in range(30):
        log.refill(turn)
        assert set(range(1, 21)) <= set(log.buffers.episodes), "all that the log has"
        assert len(log.buffers) == 60
    counts = log.buffers.counts()["lift-can"]
    assert counts[:2] == (20, 40)
    batch = log.buffers.sample(4000, torch.Generator().manual_seed(0))
    cans = batch.action[(batch.task == 1) & batch.success]
    known = {tuple(row) for seed in range(20) for row in make(seed, task="lift-any").actions.tolist()}
    assert {tuple(row) for row in cans.tolist()} == known


def test_every_episode_of_the_log_has_its_turn(long_log):
    log, seen, reads = listed(long_log, capacity=240), set(), []
    for turn in range(80):
        reads.append(log.refill(turn))
        seen |= set(log.buffers.episodes)
    assert seen == set(range(1, 221))
    assert reads[0] == 60 and max(reads[1:]) <= 12, "a turn replaces a share, not everything"
    still = listed(long_log, capacity=240)
    still.refill(0)
    still.buffers.config.refresh = 0.0
    assert still.refill(7) == 0


def test_a_resumed_run_draws_what_one_that_never_stopped_draws(long_log):
    log, fresh = (listed(long_log, capacity=240) for _ in range(2))
    for turn in range(12):
        log.refill(turn)
    fresh.refill(11)
    assert set(log.buffers.episodes) == set(fresh.buffers.episodes)
    one, other = (each.buffers.sample(500, torch.Generator().manual_seed(0)) for each in (log, fresh))
    assert all(torch.equal(*pair) for pair in zip(one, other, strict=True))


def test_episodes_without_a_pose_are_refused_in_one_line(store):
    with store.writer("b") as writer:
        number = writer.append(make(0, has_pose=False))
    judge(store, episodes=range(1, number + 1))
    log = replay(store)
    log.step()
    log.buffers = TaskBuffers(tuple(TASKS), (8, 8), ReplayConfig(100), needs_pose=True)
    with pytest.raises(UserError, match=rf"episode {number} has no pose of the hand, .* learner.network.merge=added"):
        log.refill()


def test_an_episode_of_an_unknown_task_is_named(store):
    with store.writer("b") as writer:
        number = writer.append(make(0, task="juggle"))
    judge(store)
    with pytest.raises(UserError, match=f"unknown task of episode {number} 'juggle'; known: lift-any, "):
        replay(store).step()


def test_it_waits_for_a_verdict_and_keeps_the_order(store):
    judge(store, episodes=(1, 3, 4))
    log = replay(store)
    assert log.step() == StepCounts(read=1, listed=1, shared=2, skipped=0, waiting=4)
    assert log.step() == StepCounts(read=0, listed=0, shared=0, skipped=0, waiting=4)
    judge(store, episodes=(2,))
    assert log.step() == StepCounts(read=4, listed=3, shared=5, skipped=1, waiting=0)
    log.refill()
    assert log.buffers.episodes == (1, 2, 3, 4)


def test_it_need_not_wait(store):
    judge(store, episodes=(1, 3, 4))
    log = replay(store, wait=False)
    assert log.step() == StepCounts(read=5, listed=3, shared=5, skipped=2, waiting=0)
    log.refill()
    assert log.buffers.episodes == (1, 3, 4)


def test_it_waits_for_some_tasks_only(store):
    labels = [Label(one, "lift-any", 1.0, "detector:v1") for one in (1, 2, 4)]
    store.add_labels([*labels, Label(2, "lift-can", 1.0, "person")])
    log = replay(store)
    log.awaited = ("lift-any",)
    assert log.step() == StepCounts(read=5, listed=3, shared=4, skipped=2, waiting=0)
    log.refill()
    assert outcomes(log) == {"lift-any": (3, 0), "lift-can": (1, 0), "place-any": (0, 0)}


def test_tasks_that_are_not_learned_still_lend_their_episodes(store):
    judge(store)
    log = replay(store, tasks=("lift-can",))
    log.step()
    log.refill()
    assert outcomes(log) == {"lift-can": (1, 2)}
    assert log.buffers.episodes == (1, 2, 4)  # the place has nothing for it


def test_a_new_detector_changes_the_verdicts_of_what_is_held(store):
    judge(store)
    log = replay(store, version="v1")
    log.step()
    log.refill()
    judge(store, won=WON | {("lift-any", 2)}, version="v2")
    log.rewards = partial(_rewards, store, "v2")
    log.restart()
    log.step()
    assert log.refill() == 0, "held episodes keep their frames"
    assert outcomes(log) == {"lift-any": (3, 0), "lift-can": (1, 2), "place-any": (1, 0)}


def test_nothing_is_held_when_no_verdict_counts_any_more(store):
    judge(store)
    log = replay(store)
    log.step()
    log.refill()
    log.rewards, log.awaited = partial(_rewards, store, "v2"), ()
    log.restart()
    log.step()
    assert log.refill() == 0 and len(log.buffers) == 0


def test_wrong_settings_fail_at_once(store):
    with pytest.raises(UserError, match="unknown sharing strategy 'some'; known: orig, all, skill"):
        replay(store, strategy="some")
    with pytest.raises(UserError, match="unknown task 'juggle'; known: lift-any"):
        replay(store, tasks=("juggle",))


def _rewards(store, version, task, after, until):
    return store.rewards(task, version, after=after, until=until)
