"""Kills, several writers and truncated files."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import episodes
from helpers.episodes import make, same

from polytask.errors import UserError
from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.records import Label
from polytask.mtopt.store import EpisodeStore, Tail
from polytask.mtopt.store.shards import scan

QUICK = StoreConfig(fsync=False)


def start(root, *arguments):
    command = [sys.executable, episodes.__file__, str(root), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def whole_episodes(root):
    return sum(len(scan(path).episodes) for path in (root / "shards").glob("*.tar"))


def test_killed_at_any_moment_a_writer_loses_only_what_was_not_promised(tmp_path):
    rng, promised = random.Random(0), []
    for number in range(5):
        process = start(tmp_path, "collector", 100_000, 64, 1 + number % 2)
        lines = [process.stdout.readline() for _ in range(rng.randrange(1, 8))]
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=rng.uniform(0.0, 0.05))
        os.kill(process.pid, signal.SIGKILL)
        lines += process.stdout.read().splitlines(keepends=True)
        process.stdout.close()
        assert process.wait() == -signal.SIGKILL
        promised += [int(word) for line in lines if line.endswith("\n") for word in line.split()]

        store = EpisodeStore(tmp_path, QUICK)
        report = store.check(deep=True)
        known = [row.id for row in store.rows()]
        assert report.is_sound
        assert report.writing == ()
        assert len(promised) == len(set(promised))
        assert set(promised) <= set(known)
        assert len(report.tails) <= number + 1
        assert len(known) + sum(tail.episodes for tail in report.tails) == whole_episodes(tmp_path)
        with store.writer("after") as writer:  # and writing continues
            promised.append(writer.append(make(number)))
        assert same(store.read(promised[-1]), make(number))
        store.close()

    store = EpisodeStore(tmp_path, QUICK)
    orphans = sum(tail.episodes for tail in store.check().tails)
    assert store.recover() == orphans
    assert len(store) == whole_episodes(tmp_path) >= len(promised) >= 10
    assert store.recover() == 0
    store.close()


def test_three_processes_write_while_a_fourth_reads(tmp_path):
    processes = [start(tmp_path, name, 16, 8, 2) for name in ("a", "b", "b")]  # two even under the same name
    store, seen = EpisodeStore(tmp_path, QUICK), []
    while any(process.poll() is None for process in processes):
        seen += store.rows(after=seen[-1].id if seen else 0)
    seen += store.rows(after=seen[-1].id if seen else 0)
    assert [process.wait() for process in processes] == [0, 0, 0]
    for process in processes:
        process.stdout.close()
    # A reader that asks for what is new never misses a row that another process entered late.
    assert [row.id for row in seen] == list(range(1, 49))
    shards = {row.shard for row in seen}
    assert len(shards) == 3
    for shard in shards:
        assert [row.seed for row in seen if row.shard == shard] == list(range(16))
    report = store.check(deep=True)
    assert (report.episodes, report.tails, report.is_sound) == (48, (), True)
    store.close()


@pytest.fixture
def store(tmp_path):
    with_store = EpisodeStore(tmp_path, QUICK)
    yield with_store
    with_store.close()


def shard(store, name="a-000000.tar") -> Path:
    return store.root / "shards" / name


@pytest.mark.parametrize("kept", [1, 511, 512, 513, 3000, -1])
def test_a_shard_cut_inside_its_last_episode_loses_only_that_one(store, kept):
    with store.writer("a") as writer:
        ids = [writer.append(make(seed)) for seed in range(3)]
    last = store.row(ids[-1])
    size = last.offset + (kept if kept > 0 else last.size + kept)
    os.truncate(shard(store), size)
    report = store.check()
    assert report.lost == (ids[-1],)
    assert not report.is_sound
    assert f"episode {ids[-1]}: its bytes are missing" in report.lines()
    assert all(same(store.read(one), make(seed)) for seed, one in enumerate(ids[:2]))
    with pytest.raises(UserError, match=f"episode {ids[-1]} cannot be read from 'a-000000.tar': the file ends"):
        store.read(ids[-1])
    # Without its row the rest of it is an unfinished episode.
    found = scan(shard(store))
    assert (len(found.episodes), found.end, found.left_over) == (2, last.offset, size - last.offset)


def test_bytes_without_a_row_are_reported_and_can_be_entered(store, monkeypatch):
    writer = store.writer("a")
    first = writer.append(make(0))
    with monkeypatch.context() as patch:
        patch.setattr(store._index, "add_episodes", lambda rows: 1 / 0)  # dies between the bytes and the row
        with pytest.raises(ZeroDivisionError):
            writer.append(make(1))
    second = writer.append(make(2))
    writer.close()
    assert store.row(second).shard == "a-000001.tar"  # a file in doubt is not continued
    row = store.row(first)
    size = shard(store).stat().st_size - row.size
    assert store.check().tails == (Tail("a-000000.tar", row.size, size, 1, 0),)
    assert store.check().is_sound
    assert store.recover() == 1
    assert same(store.read(3), make(1))
    assert store.truth(3) == {"lift-any": True, "lift-can": False}
    assert store.check().tails == ()


def test_a_half_written_episode_stays_in_the_shard(store, monkeypatch):
    writer = store.writer("a")
    writer.append(make(0))
    write = os.write

    def full_disk(file, data):
        write(file, data[:1000])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full_disk)
        with pytest.raises(UserError, match=r"cannot write '.*a-000000.tar': No space left on device"):
            writer.append(make(1))
    assert writer.append(make(2)) == 2
    writer.close()
    (tail,) = store.check().tails
    assert (tail.offset, tail.size, tail.episodes, tail.left_over) == (store.row(1).size, 1000, 0, 1000)
    assert store.recover() == 0
    assert [row.seed for row in store.rows()] == [0, 2]


def test_what_is_being_written_is_neither_reported_nor_recovered(store):
    writer = store.writer("a")
    writer.append(make(0))
    os.write(writer._file, b"half an episode")
    other = EpisodeStore(store.root, QUICK)
    report = other.check()
    assert (report.writing, report.tails, report.is_sound) == (("a-000000.tar",), (), True)
    assert "a-000000.tar: being written" in report.lines()
    assert other.recover() == 0
    other.close()
    writer._abandon()
    assert store.check().tails[0].left_over == len(b"half an episode")


def test_a_changed_byte_is_found_by_a_deep_check_only(store):
    with store.writer("a") as writer:
        ids = [writer.append(make(seed)) for seed in range(2)]
    content = bytearray(shard(store).read_bytes())
    content[store.row(ids[1]).outcome_offset + 100] ^= 1
    shard(store).write_bytes(content)
    assert store.check().is_sound
    assert store.check(deep=True).damaged == {ids[1]: "its checksum differs"}
    with pytest.raises(UserError, match="its checksum differs"):
        store.read(ids[1])


def test_a_file_that_is_no_index_is_named(tmp_path):
    (tmp_path / "index.sqlite").write_text("hello " * 100)
    with pytest.raises(UserError, match=r"index.sqlite' is damaged \(file is not a database\)"):
        EpisodeStore(tmp_path)


def test_a_place_that_cannot_be_a_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot make the folder '.*file/shards': "):
        EpisodeStore(tmp_path / "file")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # Python warns of threads it may have
def test_a_forked_process_opens_an_index_of_its_own(store):
    with store.writer("a") as writer:
        writer.append(make(0))
    process = os.fork()
    if process == 0:
        try:
            store.add_labels([Label(1, "lift-any", 1.0, "person")])
        finally:
            os._exit(0)
    assert os.waitpid(process, 0)[1] == 0
    store.add_labels([Label(1, "lift-can", 0.0, "person")])
    assert [label.task for label in store.labels()] == ["lift-any", "lift-can"]
