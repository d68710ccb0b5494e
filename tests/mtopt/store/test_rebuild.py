"""A lost or damaged index is rebuilt from the shards, and nothing of it is deleted."""

import math
import os
import sqlite3
from contextlib import suppress
from pathlib import Path

import pytest
from helpers.episodes import make, same

from polytask.errors import UserError
from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.records import Label
from polytask.mtopt.store import EpisodeStore, rebuild

QUICK = StoreConfig(fsync=False)
COUNT = 40


class Killed(Exception):
    """Stands in for a signal."""


@pytest.fixture
def root(tmp_path):
    """Hold episodes of two writers in turn, labels of all kinds, and an index of many pages."""
    store = EpisodeStore(tmp_path, QUICK)
    with store.writer("b") as first, store.writer("a") as second:  # not in the order of their names
        ids = [(first, second)[seed % 2].append(make(seed)) for seed in range(COUNT)]
    for source in ("person", "oracle", "detector:run-1"):
        store.add_labels([Label(one, f"task-{number}", 1.0, source) for one in ids for number in range(10)])
    store.close()
    return tmp_path


def contents(root):
    store = EpisodeStore(root, QUICK)
    truth = [store.truth(row.id) for row in store.rows()]
    found = (store.rows(), truth, store.labels(), store.check(deep=True).is_sound)
    store.close()
    return found


def remove(path):
    path.unlink()


def empty(path):
    path.write_bytes(b"")


def text(path):
    path.write_text("hello " * 1000)


def folder(path):
    path.unlink()
    path.mkdir()
    (path / "file").write_text("")


def other_database(path):
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE other(id INTEGER)")
    connection.close()


def flip_header(path):
    content = bytearray(path.read_bytes())
    content[:64] = os.urandom(64)
    path.write_bytes(content)


def cut(share):
    def change(path):
        os.truncate(path, int(share * path.stat().st_size))

    return change


LOST = [
    remove,
    empty,
    text,
    folder,
    other_database,
    flip_header,
    *(cut(share) for share in (0.001, 0.1, 0.5, 0.99, 0.9999)),
]


@pytest.mark.parametrize("damage", LOST)
def test_a_lost_index_is_rebuilt_with_all_episodes_and_says_so(root, capsys, damage):
    rows, truth, labels, _ = contents(root)
    path = root / "index.sqlite"
    damage(path)
    before = path.read_bytes() if path.is_file() else None
    found = contents(root)
    line = capsys.readouterr().err
    assert found[:2] == (rows, truth)
    assert found[3]
    assert {one for one in labels if not one.source.startswith("detector:")} <= set(found[2]) <= set(labels)
    assert line.startswith(f"'{path}' ") and line.count("\n") == 1
    assert f"rebuilt from the shards: {COUNT} episodes; " in line
    assert ("no label could be recovered" in line) == (not found[2])
    aside = root / "index.damaged-1.sqlite"
    assert aside.exists() == (damage is not remove)
    assert (f"the old file is now '{aside.name}'" in line) == aside.exists()
    assert before is None or aside.read_bytes()[100:] == before[100:], "but for SQLite's header"
    assert contents(root) == found and capsys.readouterr().err == "", "once is enough"


def test_what_can_be_read_of_a_damaged_index_is_kept(root, capsys):
    rows, _, labels, _ = contents(root)
    path = root / "index.sqlite"
    size = path.stat().st_size
    content = bytearray(path.read_bytes())
    content[size // 4 : size // 4 + 4096] = os.urandom(4096)  # within the labels
    os.truncate(path, 0)
    path.write_bytes(content[: size * 9 // 10])
    found = contents(root)
    assert found[0] == rows
    assert 0 < len(found[2]) < len(labels)
    counts = {kind: sum(one.source.startswith(kind) for one in found[2]) for kind in ("detector", "oracle", "person")}
    said = ", ".join(f"{count} of {kind}" for kind, count in counts.items() if count)
    assert f"labels recovered: {said}" in capsys.readouterr().err


def test_episodes_keep_the_ids_that_labels_refer_to(tmp_path):
    store = EpisodeStore(tmp_path, QUICK)
    first, second = store.writer("a"), store.writer("b")
    ids = [second.append(make(0)), first.append(make(1))]
    first.close()
    second.close()
    store.close()
    path = tmp_path / "index.sqlite"
    with sqlite3.connect(path) as connection:  # as after a removed episode: ids are not the places in the shards
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("UPDATE episode SET id = id + 10")
        connection.execute("UPDATE truth SET episode = episode + 10")
        connection.execute("INSERT INTO label VALUES (NULL, 12, 'lift-any', 'person', 1.0, 2e9)")
        connection.execute("DROP INDEX episode_task")
        connection.execute("PRAGMA user_version = 0")
    connection.close()
    store = EpisodeStore(tmp_path, QUICK)
    assert [(row.id, row.seed) for row in store.rows()] == [(ids[0] + 10, 0), (ids[1] + 10, 1)]
    assert store.labels() == [Label(12, "lift-any", 1.0, "person")]
    with store.writer("c") as writer:
        assert writer.append(make(2)) == 13
    store.close()


@pytest.mark.parametrize("moment", range(6))
def test_a_rebuild_that_is_killed_at_any_moment_loses_nothing(root, monkeypatch, moment):
    rows, _, labels, _ = contents(root)
    path = root / "index.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 0")  # readable, so that all labels can be recovered
    connection.close()
    steps = []

    def count_down(function):
        def call(*arguments, **options):
            steps.append(function)
            if len(steps) == moment + 1:
                raise Killed
            return function(*arguments, **options)

        return call

    with monkeypatch.context() as patch:
        for owner, name in ((rebuild, "_scan"), (rebuild, "_write"), (Path, "replace"), (Path, "rename")):
            patch.setattr(owner, name, count_down(getattr(owner, name)))
        with suppress(Killed):
            EpisodeStore(root, QUICK).close()
    assert len(steps) == min(moment + 1, 5), "write, scan, replace, rename, rename"
    found = contents(root)
    assert found == (rows, found[1], labels, True)
    assert len(list(root.glob("index.damaged-*.sqlite"))) == 1
    assert not list(root.glob("*.rebuilt*")) + list(root.glob(".*.part"))


def test_an_index_is_not_rebuilt_under_a_living_writer(tmp_path):
    store = EpisodeStore(tmp_path, QUICK)
    writer = store.writer("a")
    writer.append(make(0))
    (tmp_path / "index.sqlite").unlink()
    with pytest.raises(
        UserError, match=r"index.sqlite' is missing while another process writes 'a-000000.tar'; end it"
    ):
        EpisodeStore(tmp_path, QUICK)
    assert not (tmp_path / "index.sqlite").exists()
    with pytest.raises(UserError, match="was removed or replaced while this process used it"):
        writer.append(make(1))
    with pytest.raises(UserError, match="was removed or replaced"):
        store.add_labels([Label(1, "lift-any", 1.0, "person")])
    store.close()
    store = EpisodeStore(tmp_path, QUICK)
    assert [same(store.read(row.id), make(seed)) for seed, row in enumerate(store.rows())] == [True, True]
    store.close()


def test_a_rebuild_waits_for_no_other_user_of_the_index(root):
    store = EpisodeStore(root, QUICK)
    with pytest.raises(UserError, match=r"index.sqlite' is in use by another process"):
        rebuild.rebuild(root / "index.sqlite", root / "shards", is_forced=True)
    store.close()
    assert rebuild.rebuild(root / "index.sqlite", root / "shards") is None, "nothing is wrong with it"


def test_a_damaged_episode_is_left_out_and_those_after_it_are_found(root):
    store = EpisodeStore(root, QUICK)
    row = store.row(3)
    store.close()
    shard = root / "shards" / row.shard
    content = bytearray(shard.read_bytes())
    content[row.offset + 600] ^= 1
    shard.write_bytes(content)
    done = rebuild.rebuild(root / "index.sqlite", root / "shards", is_forced=True)
    assert (done.episodes, done.labels["person"], done.unreadable) == (COUNT - 1, 10 * (COUNT - 1), row.size)
    assert "; labels dropped: 30; " in done.summary()
    rows, _, labels, is_sound = contents(root)
    assert is_sound
    assert [one.id for one in rows] == [number for number in range(1, COUNT + 1) if number != 3]
    assert 3 not in {label.episode for label in labels}


def test_without_a_rebuild_the_line_names_the_command(root):
    (root / "index.sqlite").unlink()
    with pytest.raises(UserError, match=r"is missing; `polytask mtopt check run_dir=.* repair=true` rebuilds it"):
        EpisodeStore(root, QUICK, rebuilds=False)
    assert not (root / "index.sqlite").exists()


def test_an_index_that_breaks_while_it_is_used_is_one_line(root):
    store = EpisodeStore(root, QUICK)
    store.close()
    path = root / "index.sqlite"
    content = bytearray(path.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)  # the first page, with the schema, is whole
    path.write_bytes(content)
    store = EpisodeStore(root, QUICK)
    for use in (store.rows, store.labels, lambda: store.add_labels([Label(1, "lift-any", 1.0, "person")])):
        with pytest.raises(UserError, match=r"index.sqlite' is damaged \(.*\); `polytask mtopt check"):
            use()
    store.close()


def test_the_id_of_a_removed_episode_is_not_given_out_again(tmp_path):
    store = EpisodeStore(tmp_path, QUICK)
    with store.writer("a") as writer:
        last = [writer.append(make(seed)) for seed in range(3)][-1]
    row = store.row(last)
    store.close()
    shard = tmp_path / "shards" / row.shard
    content = bytearray(shard.read_bytes())
    content[row.offset + 600] ^= 1
    shard.write_bytes(content)
    for _ in range(2):  # the second rebuild knows it only from the first one
        rebuild.rebuild(tmp_path / "index.sqlite", tmp_path / "shards", is_forced=True)
    store = EpisodeStore(tmp_path, QUICK)
    assert store.last() == last - 1
    with store.writer("b") as writer:
        assert writer.append(make(3)) == last + 1
    store.close()


def leaves(path, table):
    """Return the numbers of the pages that hold the rows of a table, whose root has only leaves below it."""
    with sqlite3.connect(path) as connection:
        query = "SELECT rootpage, page_size FROM sqlite_master, pragma_page_size WHERE name = ?"
        root, size = connection.execute(query, (table,)).fetchone()
    connection.close()
    page = path.read_bytes()[(root - 1) * size : root * size]
    assert page[0] == 5, "an inner page"
    cells = [int.from_bytes(page[12 + 2 * n : 14 + 2 * n], "big") for n in range(int.from_bytes(page[3:5], "big"))]
    return [int.from_bytes(page[at : at + 4], "big") for at in cells], size


@pytest.mark.parametrize("table", ["episode", "label"])
def test_labels_survive_a_damaged_page(tmp_path, table):
    store = EpisodeStore(tmp_path, QUICK)
    with store.writer("a") as writer:
        ids = writer.append_many([make(seed) for seed in range(200)])
    store.add_labels([Label(one, "lift-any", one % 2 / 1, "person") for one in ids])
    store.add_labels([Label(one, "lift-any", 0.25, "detector:run-1") for one in ids])
    store.close()
    rows, truth, labels, _ = contents(tmp_path)
    path = tmp_path / "index.sqlite"
    pages, size = leaves(path, table)
    content = bytearray(path.read_bytes())
    content[(pages[1] - 1) * size : pages[1] * size] = os.urandom(size)
    path.write_bytes(content)
    done = rebuild.rebuild(path, tmp_path / "shards", is_forced=True)
    assert (done.episodes, done.labels, done.dropped) == (200, {"detector": 200, "person": 200}, 0)
    found = contents(tmp_path)
    assert (found[0], found[1], found[3]) == (rows, truth, True)
    assert set(found[2]) == set(labels) and len(found[2]) == len(labels), "the order of two sources may differ"


def test_labels_of_people_come_back_without_the_index(root):
    """The newest answer counts, a withdrawn one does not, and a line that a crash cut off is only one line."""
    store = EpisodeStore(root, QUICK)
    store.add_labels([Label(1, "task-0", 0.0, "person"), Label(2, "task-0", math.nan, "person")])
    labels = [label for label in store.labels() if not label.source.startswith("detector:")]
    store.close()
    with (root / "labels.jsonl").open("ab") as file:
        file.write(b'{"shard": "a-0000')
    (root / "index.sqlite").unlink()
    store = EpisodeStore(root, QUICK)
    assert store.labels() == labels
    assert len(store.labels(source="person")) == 10 * COUNT - 1
    store.add_labels([Label(2, "task-0", 1.0, "person")])
    assert len(store.labels(source="person")) == 10 * COUNT
    store.close()
    assert rebuild.label_log.read(root / "labels.jsonl")[1] == 1


def test_a_store_of_an_older_version_gets_the_file_with_all_labels_so_far(root):
    path = root / "labels.jsonl"
    before = rebuild.label_log.read(path)[0]
    path.unlink()
    store = EpisodeStore(root, QUICK)
    store.add_labels([Label(5, "task-0", 0.0, "person")])
    store.add_labels([Label(5, "task-0", 0.5, "detector:run-1")])
    store.close()
    lines = rebuild.label_log.read(path)[0]
    assert lines[:-1] == before and (lines[-1].task, lines[-1].value) == ("task-0", 0.0)
