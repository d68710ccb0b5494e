"""Episodes, labels and rewards."""

import hashlib
import io
import math
import os
import pickle
import tarfile
import threading
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from helpers.episodes import make, same

from polytask.errors import UserError
from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.records import Label
from polytask.mtopt.store import EpisodeStore, episode_of_pictures, shards
from polytask.mtopt.store.png import DamagedError

QUICK = StoreConfig(fsync=False)


@pytest.fixture
def store(tmp_path):
    with_store = EpisodeStore(tmp_path / "log", QUICK)
    yield with_store
    with_store.close()


def fill(store, count=3, name="collector", **changes):
    with store.writer(name) as writer:
        return [writer.append(make(seed, **changes)) for seed in range(count)]


def digest(store):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (store.root / "shards").iterdir()}


def test_an_episode_comes_back_without_what_the_simulator_knows(store):
    ids = [fill(store)[0], *fill(store, 1, "other", steps=5, task="place-any")]
    assert same(store.read(ids[0]), make(0))
    assert same(store.read(ids[1]), make(0, steps=5, task="place-any"))
    assert store.read(ids[0]).truth == {}
    assert store.truth(ids[0]) == {"lift-any": True, "lift-can": False}


def test_reading_the_outcome_touches_nothing_else(store, monkeypatch):
    (episode,) = fill(store, 1, size=64, steps=12)
    read = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda file, size, at: read.append(size) or pread(file, size, at))
    assert np.array_equal(store.outcome(episode), make(0, size=64, steps=12).outcome)
    assert sum(read) < 0.3 * store.row(episode).size


def test_rows_come_in_order_and_can_be_chosen(store):
    first, second = fill(store, 2), fill(store, 2, task="place-any")
    assert [row.id for row in store.rows()] == first + second
    assert [row.id for row in store.rows(after=first[0])] == [first[1], *second]
    assert [row.id for row in store.rows() if row.task == "place-any"] == second
    assert store.last() == second[-1]
    assert [row.id for row in store.rows(after=first[0], limit=2)] == [first[1], second[0]]
    row = store.rows()[1]
    assert (row.task, row.policy, row.seed, row.length, row.views) == ("lift-any", "script-1", 1, 3, 2)
    assert len(store) == 4


def test_an_uploaded_picture_is_an_episode_without_actions(store):
    picture = make(4).outcome
    with store.writer("page") as writer:
        episode = writer.append(episode_of_pictures(picture, "lift-can"))
    assert np.array_equal(store.outcome(episode), picture)
    read = store.read(episode)
    assert (read.policy, read.task, read.actions.shape, len(read.images)) == ("upload", "lift-can", (0, 8), 1)
    assert store.truth(episode) == {}


def test_a_shard_is_an_archive_of_one_sample_per_key(store):
    fill(store, 2)
    samples = defaultdict(set)
    with tarfile.open(store.root / "shards" / "collector-000000.tar") as archive:
        for name in archive.getnames():
            key, _, extension = name.partition(".")
            samples[key].add(extension)
    parts = {"outcome.png", "images.png", "steps.npy", "truth.json", "json"}
    assert samples == {"collector-000000-000000": parts, "collector-000000-000001": parts}


def test_large_shards_are_followed_by_others(tmp_path):
    store = EpisodeStore(tmp_path, StoreConfig(fsync=False, shard_bytes=10_000))
    ids = fill(store, 6)
    assert len({row.shard for row in store.rows()}) == 3  # an episode takes 5 to 6 KB here, so two to a shard
    assert all(same(store.read(episode), make(seed)) for seed, episode in enumerate(ids))
    assert store.check(deep=True).is_sound
    store.close()


def test_the_name_of_a_lost_shard_does_not_come_back(store):
    (first,) = fill(store, 1)
    lost = store.row(first).shard
    (store.root / "shards" / lost).unlink()
    (second,) = fill(store, 1)
    assert store.row(second).shard != lost
    assert store.read(second).task
    with pytest.raises(UserError, match=f"episode {first} cannot be read from '{lost}': No such file or directory"):
        store.read(first)


def test_several_episodes_at_once_with_threads(tmp_path):
    store = EpisodeStore(tmp_path, StoreConfig(threads=3))
    with store.writer("a") as writer:
        assert writer.append_many([]) == []
        writer.append(make(9))
        ids = writer.append_many([make(seed) for seed in range(5)])
    assert ids == [2, 3, 4, 5, 6]
    assert all(same(store.read(episode), make(seed)) for seed, episode in enumerate(ids))
    assert np.array_equal(store.outcome(5), make(3).outcome)
    assert all(same(one, make(seed)) for one, seed in zip(store.read_many([4, 3, 6]), (2, 1, 4), strict=True))
    assert np.array_equal(store.outcomes([6, 2, 6]), np.stack([make(seed).outcome for seed in (4, 0, 4)]))
    with pytest.raises(UserError, match="there is no episode 7"):
        store.read_many([6, 7])
    store.close()


@pytest.mark.parametrize("threads", [0, 1, 4])
def test_many_episodes_come_back_in_the_order_in_which_they_are_named(tmp_path, threads):
    store = EpisodeStore(tmp_path, StoreConfig(fsync=False, threads=threads, shard_bytes=50_000))
    ids = []
    with store.writer("a") as writer:
        for first in range(0, 100, 10):
            ids += writer.append_many([make(seed, steps=1) for seed in range(first, first + 10)])
    assert ids == list(range(1, 101)) and len({row.shard for row in store.rows()}) > 1
    named = ids[::-7] + ids[:70]
    assert [store.read(one).seed for one in named] == [one.seed for one in store.read_many(named)]
    assert all(same(one, make(number - 1, steps=1)) for one, number in zip(store.read_many(named), named, strict=True))
    wanted = np.stack([make(number - 1, steps=1).outcome for number in named])
    assert np.array_equal(store.outcomes(named), wanted)
    os.truncate(store.root / "shards" / store.row(100).shard, 600)
    last = next(row.id for row in store.rows() if row.shard == store.row(100).shard)
    for read in (store.read_many, store.outcomes):
        with pytest.raises(UserError, match=f"episode {last} cannot be read from 'a-.*': the file ends"):
            read(ids)
    store.close()


def test_what_is_read_may_be_written_to(store):
    (episode,) = fill(store, 1)
    read = store.read(episode)
    arrays = (read.images, read.closed, read.height, read.actions, read.pose, read.outcome, store.outcome(episode))
    assert all(array.flags.writeable and array.flags.c_contiguous for array in arrays)


def test_an_episode_can_be_read_without_its_outcome(store):
    ids = fill(store, 2)
    for seed, read in enumerate(store.read_many(ids, with_outcome=False)):
        assert read.outcome.shape == (0, 0, 0, 3)
        assert same(replace(read, outcome=make(seed).outcome), make(seed))


def test_examples_uploaded_before_the_first_episode_fit_its_views(store):
    """The page knew neither the number nor the size of the views: one view of 4 pixels, the episodes have two of 12."""
    picture = np.arange(48, dtype=np.uint8).reshape(1, 4, 4, 3)
    with store.writer("upload") as writer:
        early = writer.append(episode_of_pictures(picture, "lift-any"))
    assert store.outcome(early).shape == (1, 4, 4, 3)
    with store.writer("a") as writer:
        made = writer.append(make(1))
    found = store.outcomes([early, made])
    assert found.shape == (2, 2, 12, 12, 3) and store.outcome(early).shape == (2, 12, 12, 3)
    assert (found[0] == np.repeat(np.repeat(picture, 3, 1), 3, 2)).all(), "in both views, each pixel three times"
    assert (found[1] == make(1).outcome).all()
    assert (store.examples(), store.first_made()) == ([early], made)


def test_tallies_count_what_rewards_lists(store):
    with store.writer("a") as writer:
        for seed in range(12):
            one = make(seed, task=("lift-any", "lift-can", "place-any")[seed % 3])
            writer.append(replace(one, policy=("scripted-pick", "q:3")[seed % 2]))
        upload = writer.append(episode_of_pictures(make(0).outcome, "lift-any"))
    store.add_labels([Label(one, "lift-any", one / 12, "detector:d1") for one in range(1, 11)])
    store.add_labels([Label(one, "lift-any", 1.0, "person") for one in (1, 12, upload)])
    store.add_labels([Label(2, "lift-any", 0.9, "person"), Label(2, "lift-any", math.nan, "person")])  # withdrawn
    store.add_labels([Label(3, "lift-any", 0.99, "detector:d1"), Label(4, "lift-any", 1.0, "detector:d2")])
    rewards = {one: won for one, won in store.rewards("lift-any", "d1", 0.6).items() if one != upload}
    rows = {row.id: row for row in store.rows()}
    wanted = defaultdict(list)
    for one, won in rewards.items():
        wanted[rows[one].task, rows[one].policy, one > 5].append(won)
    found = store.tally("lift-any", "d1", 0.6, after=5)
    assert {one[:3]: one[3:] for one in found} == {key: (len(each), sum(each)) for key, each in wanted.items()}
    assert sum(one.episodes for one in found) == len(rewards) == 11
    assert store.counts_by("task") == {"lift-any": 5, "lift-can": 4, "place-any": 4}
    assert store.label_counts("person") == {"lift-any": 3} and store.label_counts("nobody") == {}
    assert store.prune_verdicts("d1") == 1
    assert store.label_counts("detector:d2") == {} and store.label_counts("person") == {"lift-any": 3}
    assert store.rewards("lift-any", "d1", 0.6).keys() - {upload} == rewards.keys()


def test_outcomes_of_another_size_are_named(store):
    ids = [*fill(store, 2), *fill(store, 1, "other", size=16)]
    with pytest.raises(
        UserError, match=rf"episode {ids[2]} .* its views are \(2, 20, 20, 3\), those of episode {ids[0]} "
    ):
        store.outcomes(ids)


def test_members_are_what_the_libraries_write():
    info = tarfile.TarInfo("collector-000000-000012.outcome.png")
    info.size, info.mtime = 700, 1_700_000_000
    content = shards._member(info.name, bytes(range(100)) * 7, info.mtime + 0.7)
    assert content == info.tobuf(tarfile.USTAR_FORMAT) + bytes(range(100)) * 7 + bytes(324)
    assert shards._read_header(content[:512]) == ("outcome.png", 700)
    for shape in ((2, 10), (13, 13)):
        table = np.random.default_rng(0).random(shape, np.float32)
        buffer = io.BytesIO()
        np.save(buffer, table)
        assert buffer.getvalue() == shards._npy_header(shape) + table.tobytes()


@pytest.mark.parametrize("at", [0, 90, 130, 140, 150, 260, 500])
def test_a_changed_byte_of_a_header_is_noticed(at):
    block = bytearray(shards._member("a-000000.json", b"", 0.0))
    block[at] ^= 0x11
    with pytest.raises(DamagedError, match="header is damaged"):
        shards._read_header(bytes(block))


def test_the_newest_label_of_a_source_counts(store):
    one, two, _ = fill(store)
    store.add_labels([Label(one, "lift-any", 0.0, "person"), Label(two, "lift-any", 1.0, "person")])
    store.add_labels([Label(one, "lift-any", 1.0, "person"), Label(one, "lift-can", 0.0, "person")])
    assert store.labels("lift-any") == [Label(two, "lift-any", 1.0, "person"), Label(one, "lift-any", 1.0, "person")]
    assert len(store.labels()) == 3
    assert store.check().labels == 4  # nothing is overwritten


def test_a_label_can_be_withdrawn(store):
    one, *_ = fill(store)
    store.add_labels([Label(one, "lift-any", 0.2, "detector:v1"), Label(one, "lift-any", 1.0, "person")])
    store.add_labels([Label(one, "lift-any", math.nan, "person")])
    assert store.labels(source="person") == []
    assert store.rewards("lift-any", "v1") == {one: False}


def test_people_outrank_the_detector_even_when_it_speaks_last_and_the_stand_in_never_does(store):
    a, b, c, d = fill(store, 4)
    store.add_labels([Label(a, "lift-any", 0.0, "person"), Label(b, "lift-any", 1.0, "person")])
    store.add_labels([Label(one, "lift-any", value, "oracle") for one, value in ((a, 1.0), (c, 0.0), (d, 1.0))])
    store.add_labels([Label(one, "lift-any", value, "detector:v1") for one, value in ((a, 0.9), (b, 0.1), (c, 0.7))])
    assert store.rewards("lift-any", "v1") == {a: False, b: True, c: True}
    assert store.rewards("lift-any", "v1", threshold=0.8) == {a: False, b: True, c: False}
    assert store.rewards("lift-any", "v2") == {a: False, b: True}  # d has no verdict at all
    assert store.rewards("lift-can", "v1") == {}
    assert store.rewards("lift-any", "v1", after=a, until=b) == {b: True}
    assert store.unlabelled("lift-any", "detector:v1") == [d]
    assert store.unlabelled("lift-any", "detector:v1", until=c) == []


def test_relabelling_history_adds_rows_and_changes_no_shard(store):
    ids = fill(store, 3)
    store.add_labels([Label(one, "lift-any", 0.1, "detector:v1") for one in ids])
    before = digest(store)
    # A new detector, and a task that did not exist when the episodes were collected.
    store.add_labels([Label(one, "lift-any", 0.9, "detector:v2") for one in ids])
    store.add_labels([Label(one, "lift-red-thing", float(one == ids[1]), "person") for one in ids])
    assert store.rewards("lift-any", "v1") == dict.fromkeys(ids, False)
    assert store.rewards("lift-any", "v2") == dict.fromkeys(ids, True)
    assert store.rewards("lift-red-thing", "v2") == {ids[0]: False, ids[1]: True, ids[2]: False}
    assert digest(store) == before


@pytest.mark.parametrize(
    ("label", "words"),
    [
        (Label(1, "lift-any", 1.5, "person"), "in [0, 1]"),
        (Label(1, "lift-any", 1.0, "somebody"), "'person', 'oracle' or 'detector:VERSION'"),
        (Label(7, "lift-any", 1.0, "person"), "no episode 7"),
        (Label(1, "", 1.0, "person"), "needs a task"),
    ],
)
def test_a_wrong_label_is_refused_together_with_those_beside_it(store, label, words):
    fill(store, 1)
    with pytest.raises(UserError) as error:
        store.add_labels([Label(1, "lift-any", 1.0, "person"), label])
    assert words in str(error.value)
    assert store.labels() == []


def test_wrong_names_numbers_and_shapes_are_refused(store):
    for name in ("", "a/b", "../a", "a.b", "a" * 49):
        with pytest.raises(UserError, match="cannot name a writer"):
            store.writer(name)
    with pytest.raises(UserError, match="the store is empty"):
        store.read(1)
    fill(store, 1)
    with pytest.raises(UserError, match="ids run from 1 to 1"):
        store.outcome(5)
    wrong = make(0, steps=3)
    object.__setattr__(wrong, "images", wrong.images[:-1])
    with store.writer("a") as writer, pytest.raises(UserError, match=r"images \(4, any, any, 3\) uint8, not \(3, 8"):
        writer.append(wrong)
    assert len(store) == 1


def test_threads_share_a_store(store):
    ids = fill(store, 4)
    seen = []

    def look():
        for one in ids:
            store.add_labels([Label(one, "lift-any", 1.0, "person")])
            seen.append(store.outcome(one).shape)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [(2, 12, 12, 3)] * 16
    assert store.check().labels == 16


def test_a_store_travels_to_another_process_as_its_place(store):
    fill(store, 2)
    copy = pickle.loads(pickle.dumps(store))
    assert len(copy) == 2
    assert copy.config == store.config
    copy.close()
