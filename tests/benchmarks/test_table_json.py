"""The runs of a reproduced table as one JSON file, and as a pack from which another machine makes the report."""

import json
import shutil
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from zipfile import ZipFile

import pytest
import table_json
from helpers.tiny_table import TINY, add_table

from polytask.cli.main import main
from polytask.errors import UserError
from polytask.runs.sweep import local, slots

COMMAND = "polytask reproduce table=some/table budget=0.1"
NAMES = ["00-plain/seed-0", "01-start/seed-0", "02-later/seed-0"]
FILES = ("config.yaml", "metrics.jsonl", "start.json", "summary.json")


def words_in(folder, monkeypatch):
    return ["reproduce", add_table(folder, monkeypatch), "budget=0.1", *TINY, "format=json"]


@pytest.fixture
def words(tmp_path, monkeypatch):
    return words_in(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train the whole table once; return its folder, and what the command printed."""
    folder = tmp_path_factory.mktemp("trained")
    printed = StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed):
        assert main([*words_in(folder, patch), f"output={folder / 'table'}"]) == 0
    return folder / "table", json.loads(printed.getvalue())


@pytest.fixture
def table(trained, tmp_path):
    """Return a copy of the trained table, which a test may change or move."""
    return Path(shutil.copytree(trained[0], tmp_path / "there" / "table"))


def refuse(*args, **more):
    raise UserError("this machine starts nothing")


def test_an_unpacked_table_is_reported_elsewhere_without_running_anything(
    words, trained, table, tmp_path, monkeypatch, capsys
):
    here = tmp_path / "here"
    table_json.main([str(table), "--pack", str(tmp_path / "runs.zip")])
    capsys.readouterr()
    with ZipFile(tmp_path / "runs.zip") as archive:
        assert sorted(archive.namelist()) == sorted([
            "index.json",
            *(f"{name}/{file}" for name in NAMES for file in FILES),
        ])  # fmt: skip
        archive.extractall(here)
    table.rename(tmp_path / "gone")
    for module, name in ((slots, "check_device"), (local, "spawn")):
        monkeypatch.setattr(module, name, refuse)
    assert main([*words, f"output={here}"]) == 0  # also the row that starts from runs of the folder it was made in
    found = json.loads(capsys.readouterr().out)
    assert [run["state"] for run in found["runs"]] == ["done"] * 3
    assert [run["setting"] for run in found["runs"]] == ["00-plain", "01-start", "02-later"]
    assert found["rows"] == trained[1]["rows"]
    assert {name: one["seeds"] for name, one in found["report"]["settings"].items()} == {
        "Plain": [0], "Start": [0], "Later": [0],
    }  # fmt: skip
    assert (here / "report" / "index.html").is_file()


def test_the_json_file_has_what_differs_and_every_run_with_its_commit_and_hardware(table, tmp_path, capsys):
    summary = json.loads((table / NAMES[2] / "summary.json").read_text())
    (table / NAMES[1] / "summary.json").write_text(json.dumps({**summary, "complete": False}))
    out = tmp_path / "out.json"
    capsys.readouterr()
    table_json.main([str(table), "--command", COMMAND, "--note", "alone", "--out", str(out)])
    assert capsys.readouterr().out == f"left out: {NAMES[1]} is not complete\n"
    assert str(tmp_path) not in out.read_text()
    found = json.loads(out.read_text())
    assert (found["command"], found["note"], found["not_complete"]) == (COMMAND, "alone", [NAMES[1]])
    assert found["settings"]["00-plain"]["differs"]["init_from"] is None
    assert found["settings"]["02-later"]["differs"] == {"init_from": "01-start/seed", "net.hidden": [8]}
    assert list(found["runs"]) == [NAMES[0], NAMES[2]]
    run = found["runs"][NAMES[2]]
    for key in ("frames", "seconds", "success", "tasks", "commit", "device", "version", "torch"):
        assert run[key] == summary[key], key
    assert run["seed"] == 0 and run["initialization"]["checkpoint"] == "seed-0"
    assert next(line for line in out.read_text().splitlines() if NAMES[0] in line).startswith(f'  "{NAMES[0]}": {{')


def made(words, root, capsys):
    """Train runs in a folder of their own, and return the zip file of them."""
    assert main([*words, f"output={root}"]) == 0
    table_json.main([str(root), "--pack", f"{root}.zip"])
    capsys.readouterr()
    return f"{root}.zip"


def test_runs_of_machines_that_began_empty_are_reported_together(words, tmp_path, monkeypatch, capsys):
    one = made([*words, "rows=[start]"], tmp_path / "one", capsys)
    other = made([*words, "rows=[plain]", "seeds=2"], tmp_path / "other", capsys)
    here = tmp_path / "here"
    table_json.main([str(here), "--unpack", one, other])
    names = ["00-start/seed-0", "01-plain/seed-0", "01-plain/seed-1"]
    assert sorted(json.loads((here / "index.json").read_text())["runs"]) == names
    assert sorted(path.parent.relative_to(here).as_posix() for path in here.rglob("summary.json")) == names
    summary = here / names[1] / "summary.json"
    summary.write_text(json.dumps({**json.loads(summary.read_text()), "commit": "ours"}))
    table_json.main([str(here), "--unpack", other])  # again: what is complete stays
    assert json.loads(summary.read_text())["commit"] == "ours"
    monkeypatch.setattr(local, "spawn", refuse)
    assert main([*words, "rows=[plain,start]", "seeds=2", "train=false", f"output={here}"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {name: one["seeds"] for name, one in found["report"]["settings"].items()} == {"Plain": [0, 1], "Start": [0]}


def test_an_interrupted_run_continues_on_another_machine(words, tmp_path, capsys):
    there, here, packed = tmp_path / "there", tmp_path / "here", str(tmp_path / "runs.zip")
    words += ["rows=[plain]", "history.worlds=1"]
    assert main([*words, f"output={there}"]) == 0
    summary = there / NAMES[0] / "summary.json"
    complete = summary.read_text()
    summary.write_text(json.dumps({**json.loads(complete), "complete": False}))
    index = json.loads((there / "index.json").read_text())
    index["runs"][NAMES[0]]["state"] = "interrupted"
    (there / "index.json").write_text(json.dumps(index))
    with pytest.raises(SystemExit):
        table_json.main([str(there), "--pack", packed])
    capsys.readouterr()
    table_json.main([str(there), "--pack", packed, "--interrupted"])
    assert capsys.readouterr().out == f"packed with its checkpoint: {NAMES[0]}\n"
    with ZipFile(packed) as archive:
        assert any(name.startswith(f"{NAMES[0]}/history/") for name in archive.namelist())
    there.rename(tmp_path / "gone")
    table_json.main([str(here), "--unpack", packed])
    checkpoint = here / NAMES[0] / "checkpoint.pt"
    written = checkpoint.stat().st_mtime_ns
    table_json.main([str(here), "--unpack", packed])  # again: it may have gone on here
    assert checkpoint.stat().st_mtime_ns == written
    assert main([*words, f"output={here}"]) == 0
    assert [run["state"] for run in json.loads(capsys.readouterr().out)["runs"]] == ["done"]
    table_json.main([str(here), "--unpack", packed])  # the run is further here, and the index still says so
    assert json.loads((here / "index.json").read_text())["runs"][NAMES[0]]["state"] == "done"
    assert f"checkpoint={here / NAMES[0]}" in (here / NAMES[0] / "log.txt").read_text()
    assert json.loads((here / NAMES[0] / "summary.json").read_text())["frames"] == json.loads(complete)["frames"]


def test_runs_whose_start_would_get_another_folder_are_refused(words, tmp_path, capsys):
    there, here, other = tmp_path / "there", tmp_path / "here", tmp_path / "other"
    made([*words, "rows=[start]"], there, capsys)
    index = json.loads((there / "index.json").read_text())
    later = {**index["settings"]["00-start"], "config": {"init_from": "{output}/00-start/seed-{seed}"}}
    index["settings"]["01-later"] = later
    (there / "index.json").write_text(json.dumps(index))
    table_json.main([str(there), "--pack", str(tmp_path / "runs.zip")])
    table_json.main([str(here), "--unpack", str(tmp_path / "runs.zip")])  # alone, they fit
    assert list(json.loads((here / "index.json").read_text())["settings"]) == ["00-start", "01-later"]
    (other / "00-plain").mkdir(parents=True)
    with pytest.raises(SystemExit):
        table_json.main([str(other), "--unpack", str(tmp_path / "runs.zip")])
    assert "'00-start' would be '01-start'" in capsys.readouterr().err
    assert sorted(path.name for path in other.iterdir()) == ["00-plain", "lock"]


def test_a_file_that_is_no_pack_is_one_line(tmp_path, capsys):
    (tmp_path / "text.zip").write_text("no zip file")
    with ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("some.txt", "text")
    for name in ("text", "other", "missing"):
        with pytest.raises(SystemExit) as end:
            table_json.main([str(tmp_path / "here"), "--unpack", str(tmp_path / f"{name}.zip")])
        assert end.value.code == 2
        assert f"{name}.zip' cannot be unpacked: " in capsys.readouterr().err
    assert not (tmp_path / "here").exists()


def test_what_cannot_be_written_is_one_line_and_leaves_nothing(tmp_path, capsys):
    out = tmp_path / "out.json"
    for words, line in [
        ([str(tmp_path)], "name what to do"),
        ([str(tmp_path), "--out", str(out)], "--out needs --command"),
        ([str(tmp_path), "--command", COMMAND, "--out", str(out)], "has no complete run of a sweep"),
    ]:
        with pytest.raises(SystemExit) as end:
            table_json.main(words)
        assert end.value.code == 2
        assert line in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
