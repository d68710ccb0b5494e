"""`polytask mtopt check` finds damage and mends what can be mended."""

import json
import os
import sqlite3
from pathlib import Path

import pytest
from helpers.episodes import make

from polytask.mtopt.config.store import StoreConfig
from polytask.mtopt.runtime.folder import RunFolder
from polytask.mtopt.store import EpisodeStore


def check(call, root, *words):
    code, out, _ = call("mtopt", "check", f"run_dir={root}", "format=json", *words)
    found = json.loads(out)
    assert code == (0 if found["is_sound"] else 1)
    return code, {one["file"]: one for one in found["findings"]}


def shard_of(root, episode=1):
    store = EpisodeStore(root)
    row = store.row(episode)
    store.close()
    return root / "shards" / row.shard, row


def test_a_sound_run_has_no_findings_and_is_not_changed(call, run_copy):
    before = {path: path.read_bytes() for path in run_copy.rglob("*") if path.is_file()}
    assert check(call, run_copy) == (0, {})
    assert {path: path.read_bytes() for path in before} == before
    code, out, err = call("mtopt", "check", f"run_dir={run_copy}")
    assert (code, out.strip(), err) == (0, f"the run in '{run_copy}' is sound", "")


def contents(root):
    """Return all rows, their truth, and the labels that are not verdicts of detectors."""
    store = EpisodeStore(root)
    rows = store.rows()
    found = (rows, [store.truth(row.id) for row in rows], store.labels(source="oracle"), store.labels(source="person"))
    store.close()
    return found


def test_a_lost_index_is_found_and_rebuilt(call, run_copy):
    before = contents(run_copy)
    (run_copy / "index.sqlite").unlink()
    code, found = check(call, run_copy)
    assert (code, found["index.sqlite"]["problem"]) == (1, "is missing")
    assert not (run_copy / "index.sqlite").exists(), "nothing is changed without repair=true"
    code, found = check(call, run_copy, "repair=true")
    assert code == 0
    assert "rebuilt from the shards: 12 episodes; labels recovered: 15 of oracle" in found["index.sqlite"]["outcome"]
    assert contents(run_copy) == before
    assert check(call, run_copy) == (0, {})


def test_a_flipped_byte_of_an_episode_costs_only_this_episode(call, run_copy):
    path, row = shard_of(run_copy, 2)
    content = bytearray(path.read_bytes())
    content[row.outcome_offset + 50] ^= 1
    path.write_bytes(content)
    code, found = check(call, run_copy)
    assert (code, found["episode 2"]["problem"]) == (1, "its checksum differs")
    code, found = check(call, run_copy, "repair=true")
    assert (code, found["episode 2"]["is_mended"]) == (0, True)
    assert check(call, run_copy)[0] == 0
    store = EpisodeStore(run_copy)
    assert 2 not in [one.id for one in store.rows()] and len(store) == 11
    store.close()
    assert (run_copy / "index.damaged-1.sqlite").exists(), "the labels of the episode are kept there"
    assert call("mtopt", "run", f"run_dir={run_copy}", "controller.rounds=2")[0] == 0


def test_traces_of_a_kill_are_no_damage_and_are_removed(call, run_copy):
    path, _ = shard_of(run_copy)
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"half an episode")
    part = run_copy / "weights" / ".q-000001.pt.999999999.part"
    part.write_bytes(b"half a file")
    code, found = check(call, run_copy)
    assert code == 0
    assert found[f"shards/{path.name}"]["problem"].endswith("bytes of an unfinished episode")
    assert found["weights/.q-000001.pt.999999999.part"]["problem"] == "temporary file of a killed process"
    code, found = check(call, run_copy, "repair=true")
    assert code == 0 and all(one["is_mended"] for one in found.values())
    assert not part.exists()
    assert path.stat().st_size < size + len(b"half an episode")
    assert check(call, run_copy) == (0, {})


def test_a_damaged_last_episode_stays_in_its_shard(call, tmp_path):
    store = EpisodeStore(tmp_path, StoreConfig(fsync=False))
    with store.writer("a") as writer:
        for seed in range(4):
            writer.append(make(seed))
    store.close()
    path, row = shard_of(tmp_path, 4)
    content = bytearray(path.read_bytes())
    content[row.outcome_offset + 50] ^= 1
    path.write_bytes(content)
    _, found = check(call, tmp_path, "repair=true")
    assert found["episode 4"]["is_mended"]
    assert path.read_bytes() == content
    one = check(call, tmp_path)[1][f"shards/{path.name}"]
    assert "bytes of damaged episodes" in one["problem"] and (one["is_wrong"], one["outcome"]) == (False, "left alone")
    with path.open("ab") as file:
        file.write(content[:700])  # a torn episode after the damaged one
    check(call, tmp_path, "repair=true")
    assert path.read_bytes() == content[: row.offset + row.size], "and the zeros that close an archive"
    content[row.offset + 3] ^= 1  # the header of a member
    path.write_bytes(content)
    check(call, tmp_path, "repair=true")
    assert path.read_bytes() == content


def test_files_that_may_not_be_read_are_findings(call, run_copy, monkeypatch):
    path, _ = shard_of(run_copy)
    real_open, real_read = os.open, Path.read_bytes

    def refuse_shard(name, *arguments, **options):
        if str(name) == str(path):
            raise PermissionError(13, "Permission denied")
        return real_open(name, *arguments, **options)

    def refuse_report(name):
        if name.name == "run-1.json":
            raise PermissionError(13, "Permission denied")
        return real_read(name)

    monkeypatch.setattr(os, "open", refuse_shard)
    monkeypatch.setattr(Path, "read_bytes", refuse_report)
    code, found = check(call, run_copy)
    assert code == 1
    assert found["index.sqlite"]["problem"] == f"cannot read '{path}': Permission denied"
    assert found["detectors/run-1.json"]["problem"].endswith("run-1.json': Permission denied")


def test_a_temporary_file_of_a_living_process_is_left_alone(call, run_copy):
    part = run_copy / "weights" / f".q-000001.pt.{os.getpid()}.part"
    part.write_bytes(b"half a file")
    for words in ((), ("repair=true",)):
        one = check(call, run_copy, *words)[1][f"weights/{part.name}"]
        assert (one["problem"], one["outcome"][:10]) == ("temporary file", "left alone")
    assert part.exists()


def test_episodes_that_the_index_lacks_are_entered(call, run_copy):
    store = EpisodeStore(run_copy)
    last = store.rows()[-1]
    store.close()
    with sqlite3.connect(run_copy / "index.sqlite") as connection:
        for table, column in (("label", "episode"), ("truth", "episode"), ("episode", "id")):
            connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (last.id,))
    connection.close()
    code, found = check(call, run_copy)
    assert (code, found[f"shards/{last.shard}"]["problem"]) == (1, "1 episodes are not in the index")
    code, found = check(call, run_copy, "repair=true")
    assert code == 0
    store = EpisodeStore(run_copy)
    assert store.rows()[-1][1:] == last[1:]
    store.close()


def test_a_row_that_describes_another_episode_is_found(call, run_copy):
    with sqlite3.connect(run_copy / "index.sqlite") as connection:
        connection.execute("UPDATE episode SET seed = seed + 1 WHERE id = 4")
    connection.close()
    code, found = check(call, run_copy)
    assert (code, found["episode 4"]["problem"]) == (1, "the index and its shard differ")


@pytest.mark.parametrize("name", ["learner.pt", "weights/q-000001.pt", "detectors/run-1.pt", "detectors/run-1.json"])
@pytest.mark.parametrize("content", [b"", b"text", None])
def test_files_that_cannot_be_mended_are_named(call, run_copy, name, content):
    path = run_copy / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2] if content is None else content)
    for words in ((), ("repair=true",)):
        code, found = check(call, run_copy, *words)
        assert code == 1
        assert (list(found), found[name]["outcome"]) == ([name], "cannot be mended")


def test_lines_that_are_missing_are_counted(call, run_copy):
    path = run_copy / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], "{torn\n", *lines[2:]]))
    code, found = check(call, run_copy)
    assert (code, found["metrics.jsonl"]["problem"]) == (1, f"the lines of 1 of {len(lines)} jobs are missing")


def test_a_repair_needs_the_run_for_itself(call, run_copy):
    folder = RunFolder(run_copy)
    folder.lock()
    assert check(call, run_copy) == (0, {})
    code, out, err = call("mtopt", "check", f"run_dir={run_copy}", "repair=true")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"in use by process {os.getpid()}" in err
    folder.close()
    code, _, err = call("mtopt", "check", "run_dir=nowhere")
    assert (code, err) == (2, "polytask: there is no folder 'nowhere'\n")
