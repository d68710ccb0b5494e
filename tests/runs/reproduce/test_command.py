"""`polytask reproduce`: the list of tables, and a tiny table that is run to its end."""

import json
import shlex
from html import unescape
from types import SimpleNamespace

import pytest
from helpers.report_runs import row as rows_of
from helpers.report_runs import write_run
from helpers.tiny_table import CHAIN, TINY, add_table

from polytask.cli.main import main
from polytask.errors import UserError
from polytask.files.folder_lock import FolderLock
from polytask.runs.reproduce.changes import for_tasks, other_than_published
from polytask.runs.reproduce.compare import beside, compare, source_line, whole_table
from polytask.runs.reproduce.tables import PublishedTable, Row, read_table
from polytask.runs.sweep import slots


@pytest.fixture
def table(tmp_path, monkeypatch):
    return add_table(tmp_path, monkeypatch)


def test_alone_it_lists_all_tables_with_runs_frames_and_times(capsys):
    assert main(["reproduce", "seeds=3", "budget=0.05", "format=json"]) == 0
    listed = {one["table"]: one for one in json.loads(capsys.readouterr().out)["tables"]}
    one = listed["mtbench/mt10_rand"]
    assert (one["runs"], one["frames"], one["measured_rows"], one["rows_like_measured"]) == (36, 36 * 50_000_000, 6, 3)
    assert one["seconds"] == pytest.approx(
        3 * 50e6 * sum(1 / speed for speed in (591e3, 603e3, 602e3, 225e3, 296e3, 312e3, 591e3, 591e3, 225e3))
    )
    assert listed["ptsl/mt10_200k"]["seconds"] is None
    assert main(["reproduce"]) == 0
    out = capsys.readouterr().out
    assert "h200_mt10_ppo_50m_mlp.json (591 k frames/s)" in out
    assert "not measured" in out


def test_commands_have_the_share_of_the_frames_and_the_start_of_the_same_seed(table, capsys):
    assert main(["reproduce", table, "budget=0.1", "seeds=2", "dry_run=true", "format=json"]) == 0
    lines = [shlex.split(line) for line in json.loads(capsys.readouterr().out)["commands"]]
    assert len(lines) == 6
    assert all("max_frames=48" in line and "video=false" in line for line in lines)
    root = "runs/reproduce/some/table-budget0.1"
    assert [line[-1] for line in lines[:3]] == [
        f"run_dir={root}/{run}" for run in ("00-plain/seed-0", "01-start/seed-0", "00-plain/seed-1")
    ]
    starts = [[word for word in line if word.startswith("init_from=")] for line in lines]
    assert starts == [[], [], [], [], [f"init_from={root}/01-start/seed-0"], [f"init_from={root}/01-start/seed-1"]]


def test_a_chain_of_rows_is_run_from_its_beginning_whatever_their_order_in_the_file(tmp_path, monkeypatch, capsys):
    words = ["reproduce", add_table(tmp_path, monkeypatch, CHAIN), "budget=0.1", *TINY, "format=json", "rows=[third]"]
    assert main([*words, "dry_run=true"]) == 0
    lines = [shlex.split(line) for line in json.loads(capsys.readouterr().out)["commands"]]
    root = "runs/reproduce/some/table-budget0.1"
    starts = [next((word for word in line if word.startswith("init_from=")), None) for line in lines]
    assert starts == [None, f"init_from={root}/00-first/seed-0", f"init_from={root}/01-second/seed-0"]
    assert main(words) == 0
    result = json.loads(capsys.readouterr().out)
    assert [(run["setting"], run["state"]) for run in result["runs"]] == [
        ("00-first", "done"), ("01-second", "done"), ("02-third", "done"),
    ]  # fmt: skip
    assert [row["seeds"] for row in result["rows"]] == [1, 1, 1]  # in the order of the file
    assert [row["row"] for row in result["rows"]] == ["third", "second", "first"]
    summaries = [json.loads((tmp_path / run["run_dir"] / "summary.json").read_text()) for run in result["runs"]]
    assert [each["initialization"] is not None for each in summaries] == [False, True, True]


def test_a_row_waits_for_the_complete_run_that_it_starts_from_seed_by_seed(tmp_path, monkeypatch, capsys):
    words = ["reproduce", add_table(tmp_path, monkeypatch, CHAIN), "budget=0.1", *TINY, "format=json", "seeds=2"]
    assert main([*words, "rows=[first]"]) == 0
    capsys.readouterr()
    root = tmp_path / "runs/reproduce/some/table-budget0.1"
    stopped = root / "00-first/seed-0"  # its checkpoint can be loaded
    summary = json.loads((stopped / "summary.json").read_text())
    (stopped / "summary.json").write_text(json.dumps({**summary, "complete": False}))
    lock = FolderLock(stopped)  # so that it cannot go on
    lock.take()
    assert main([*words, "rows=[first,second]"]) == 2
    lock.release()
    out, err = capsys.readouterr()
    assert {f"{run['setting']}/seed-{run['seed']}": run["state"] for run in json.loads(out)["runs"]} == {
        "00-first/seed-0": "failed", "00-first/seed-1": "done", "01-second/seed-0": "new", "01-second/seed-1": "done",
    }  # fmt: skip
    assert "not trained: 01-second/seed-0: the run that it starts from, 00-first/seed-0, is not complete" in err
    assert not (root / "01-second/seed-0").exists()


def test_what_is_missing_is_run_and_shown_beside_the_published_numbers(table, tmp_path, capsys):
    words = ["reproduce", table, "budget=0.1", *TINY, "jobs=2", "format=json"]
    assert main([*words, "rows=[plain]"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert [run["setting"] for run in first["runs"]] == ["00-plain"]
    written = (tmp_path / first["runs"][0]["run_dir"] / "summary.json").stat().st_mtime_ns
    assert main(words) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert {run["setting"]: run["state"] for run in result["runs"]} == {
        "00-plain": "done",
        "01-start": "done",
        "02-later": "done",
    }
    assert (tmp_path / first["runs"][0]["run_dir"] / "summary.json").stat().st_mtime_ns == written
    plain, _, later = result["rows"]
    assert (plain["seeds"], plain["frames"], plain["noiseless_success"]) == (1, 48, None)
    assert plain["published"] == {
        "success": 0.5, "interval": [0.4, 0.6], "return": None, "hours": None, "measure": "training",
    }  # fmt: skip
    assert (later["published"]["success"], later["published"]["measure"]) == (None, None)
    summary = json.loads((tmp_path / result["runs"][2]["run_dir"] / "summary.json").read_text())
    assert summary["initialization"] is not None
    page = (tmp_path / "runs/reproduce/some/table-budget0.1/report/index.html").read_text()
    assert "<h1>A tiny table</h1>" in page
    assert list(result["report"]["settings"]) == ["Plain", "Start", "Later"]  # the names of the table, not of settings
    assert result["report"]["published"]["Plain"]["success"] == 0.5
    share, changed, *others = result["report"]["remarks"]
    assert share == "budget=0.1: every run has 10 % of the published frames"
    assert share in unescape(page)
    assert not any("shared a device" in line for line in others)  # one run was missing each time, so it ran alone
    assert changed == f"this is not the published table: all runs have {' '.join(TINY[:4])}"  # the device is not named
    assert changed in err
    assert "Success at the end." in page and "Difference to the baseline." in page
    assert "All runs are in <code>runs/<wbr>reproduce/<wbr>some/<wbr>table-budget0.1</code>" in page
    assert '<th scope="row">00-plain/<wbr>seed-0</th>' in page
    assert "A tiny table: nobody has measured how long the runs take" in err


def test_the_printed_table_has_every_row_and_the_time_of_the_whole(table, tmp_path, capsys):
    assert main(["reproduce", table, "budget=0.1", *TINY, "rows=[plain]"]) == 0
    out = capsys.readouterr().out
    assert "A tiny table, beside the source" in out
    assert "0.500" in out and "0.400 to 0.600" in out
    assert "A tiny table: success of nobody. Source: nobody." in out
    assert "at the speed of these runs, the whole table as published, one run at a time, 2 seeds: less than a" in out
    assert "(1 of 3 rows measured)" in out
    path = tmp_path / "runs/reproduce/some/table-budget0.1/00-plain/seed-0/summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "seconds": 48.0, "runs_on_device": 3}))
    assert main(["reproduce", table, "budget=0.1", *TINY, "rows=[plain]"]) == 0
    # One frame per second and run, three at once: two seeds of 480 frames take 320 s.
    out = capsys.readouterr().out
    assert "the whole table as published, up to 3 runs at once on one device, 2 seeds: at least about 5 min" in out
    assert "up to 3 runs shared a device, so minutes are more than those of a run alone" in out
    page = (path.parents[2] / "report/index.html").read_text()
    assert ", up to 3 runs at once</td>" in page


@pytest.mark.parametrize(("words", "published"), [([], 0.5), (["tasks=[push]"], None), (["suite=mt10"], None)])
def test_the_numbers_of_the_source_are_not_beside_runs_on_other_tasks(words, published, table, capsys):
    assert main(["reproduce", table, "rows=[plain]", "train=false", "format=json", *words]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["published"]["success"] == published


@pytest.mark.parametrize(
    ("name", "words", "end"),
    [
        ("mtbench/sac", [], "; its figures are not known to us"),
        ("mtbench/sac", ["tasks=[push]"], "; its figures are not known to us"),
        (
            "mtbench/mt10_rand",
            ["tasks=[push]"],
            "; its figures are left out, because they are of other tasks",
        ),
        (
            "mtbench/single_task",
            [],
            ", with exploration noise, at the last logged epoch",
        ),
        ("metaworld/mt10", [], "source: polytask (no paper has these runs)"),
    ],
)
def test_the_line_about_the_source_says_why_there_are_no_figures(name, words, end):
    assert source_line(for_tasks(read_table(name), words)).endswith(end)


def test_success_is_that_of_the_report(tmp_path):
    rates = [{"box-climb": 0.5, "flat": 1.0}, {"box-climb": None, "flat": 1.0}]
    more = {"success": 1.0, "frames": 2000, "seconds": 60.0}  # the run says more, since it averages what it has
    runs = [
        write_run(tmp_path / f"one/seed-{seed}", "tasks=[box-climb,flat]", seed=seed, rows=[rows_of(2, each)], **more)
        for seed, each in enumerate(rates)
    ]
    row = Row("one", "One", "cpu_demo", (), 10**9)
    trained = [(row, SimpleNamespace(run_dir=run, state="done")) for run in runs]
    table = PublishedTable("a/b", "A", "table", "nobody", None, None, (row,))
    tables, _, payload = compare(table, [row], trained, tmp_path)
    assert payload["rows"][0]["training_success"] == payload["report"]["settings"]["One"]["training"]["mean"] == 0.5
    assert payload["rows"][0]["noiseless_success"] is None
    assert len(tables) == 2


def row_of(folder, *runs):
    """Return the facts on a row whose runs have these frames, seconds and numbers of runs on their device."""
    items = []
    for number, (frames, seconds, together) in enumerate(runs):
        (folder / str(number)).mkdir(parents=True)
        summary = {"frames": frames, "seconds": seconds, "runs_on_device": together}
        (folder / str(number) / "summary.json").write_text(json.dumps(summary))
        items.append(SimpleNamespace(run_dir=folder / str(number)))
    return beside(Row("one", "One", "cpu_demo", (), 10**9), items, {})


def time_of(facts, seeds):
    table = PublishedTable("a/b", "A", "table", "nobody", None, seeds, (Row("one", "One", "cpu_demo", (), 10**9),))
    (line,) = whole_table(table, [facts])
    return line.partition("as published, ")[2]


def test_the_time_of_a_table_is_that_of_its_device_however_many_runs_shared_it(tmp_path):
    alone, beside_three = (50_000_000, 1000.0, 1), (50_000_000, 4000.0, 4)
    assert time_of(row_of(tmp_path / "1", alone), 10) == "one run at a time, 10 seeds: 55.6 h"
    shared = "up to 4 runs at once on one device, 10 seeds: about 55.6 h"
    assert time_of(row_of(tmp_path / "2", beside_three), 10) == shared
    assert time_of(row_of(tmp_path / "3", alone, beside_three), 10) == shared
    unknown = (50_000_000, 1000.0, None)
    assert time_of(row_of(tmp_path / "4", unknown, beside_three), 10) == shared
    assert time_of(row_of(tmp_path / "5", unknown), None) == "one run at a time, 1 seed: 5.6 h"
    assert row_of(tmp_path / "6", alone, beside_three)["frames_per_second"] == 20_000  # of a run


def test_complete_runs_are_reported_where_their_device_is_missing(table, tmp_path, capsys, monkeypatch):
    words = ["reproduce", table, "budget=0.1", *TINY, "format=json"]
    assert main([*words, "rows=[plain]"]) == 0
    capsys.readouterr()

    def missing(name, key="device"):
        raise UserError("this machine has no such device")

    monkeypatch.setattr(slots, "check_device", missing)
    assert main([*words, "rows=[plain]"]) == 0
    assert json.loads(capsys.readouterr().out)["report"]["settings"].keys() == {"Plain"}
    index = tmp_path / "runs/reproduce/some/table-budget0.1/index.json"
    written = index.read_bytes()
    assert main([*words, "rows=[plain,start]"]) == 2  # one is not complete
    assert "this machine has no such device" in capsys.readouterr().err
    assert index.read_bytes() == written


def test_without_training_what_is_complete_is_reported_and_the_rest_is_missing(table, tmp_path, capsys, monkeypatch):
    words = ["reproduce", table, "budget=0.1", *TINY, "format=json"]
    assert main([*words, "train=false"]) == 0
    nothing = json.loads(capsys.readouterr().out)
    assert ([run["state"] for run in nothing["runs"]], nothing["report"]) == (["new"] * 3, None)
    assert not (tmp_path / "runs").exists()
    assert main([*words, "rows=[start]"]) == 0
    capsys.readouterr()

    def missing(*anything):
        raise UserError("this machine has no such device")

    monkeypatch.setattr(slots, "check_device", missing)
    monkeypatch.setattr(slots, "check_worlds", missing)
    index = tmp_path / "runs/reproduce/some/table-budget0.1/index.json"
    written = index.read_bytes()
    assert main([*words, "train=false"]) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert {run["setting"].partition("-")[2]: run["state"] for run in result["runs"]} == {
        "plain": "new", "start": "done", "later": "new",
    }  # fmt: skip
    assert [(row["row"], row["seeds"]) for row in result["rows"]] == [("plain", 0), ("start", 1), ("later", 0)]
    assert result["rows"][0]["published"]["success"] == 0.5
    assert result["report"]["settings"].keys() == {"Start"}
    assert index.read_bytes() == written
    assert "all runs take" not in err and "nobody has measured" not in err
    assert main([*words[:-1], "train=false"]) == 0
    assert "2 of 3 runs are not complete; the command without train=false trains them" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["table=mtbench/grpo", "train=false", "dry_run=true"], "dry_run=true prints what train=false does not run"),
        (["train=false"], "name the table: table=NAME; train= is for the runs of one"),
        (["table=mtbench/mt11_rand"], "unknown table 'mtbench/mt11_rand'; did you mean 'mtbench/mt10_rand'"),
        (["table=mtbench/mt10_rand", "rows=[vanila]"], "unknown row 'vanila'"),
        (["table=mtbench/mt10_rand", "budget=0"], "budget=0.0 is not valid; it must be more than 0"),
        (["table=mtbench/grpo", "net=mlpp"], "unknown net 'mlpp'; did you mean 'mlp'?"),
        (["table=mtbench/grpo", "seed=3"], "'seed' cannot be given"),
        (["table=mtbench/grpo", "experiment=cpu_demo"], "'preset' cannot be given: each row has its own; choose rows"),
        (["table=mtbench/grpo", "max_frames=9"], "'max_frames' cannot be given: the table says how long its runs are"),
        (["table=mtbench/grpo", "max_minutes=9"], "budget=0.05 gives each a share of the published frames"),
        (["table=mtbench/grpo", "net=mlp,moore"], "'net=mlp,moore' has several values, but the settings of a table"),
        (["table=mtbench/grpo", "row=[mt10_vanilla]"], "unknown key 'row'; did you mean 'rows'?"),
        (["table=mtbench/grpo", "nett=mlp"], "unknown key 'nett'; did you mean 'net'"),
        (
            ["table=mtbench/mt10_rand", "rows=[vanilla,simba_v2]", "net=mlp"],
            "row 'simba_v2' with net=mlp: unknown key 'net",
        ),
        (["tabel=mtbench/mt10_rand"], "name the table: table=NAME; did you mean 'table' by 'tabel'?"),
        (["foo=3"], "name the table: table=NAME; 'foo=3' is for the runs of one"),
        (["device=cuda"], "name the table: table=NAME; 'device=cuda' is for the runs of one"),
        (["rows=[vanilla]"], "name the table: table=NAME; rows= is for the runs of one"),
        (["output=here"], "name the table: table=NAME; output= is for the runs of one"),
        (["dry_run=true"], "name the table: table=NAME; dry_run= is for the runs of one"),
        (["jobs=2", "budget=0.05", "seeds=3"], "name the table: table=NAME; jobs= is for the runs of one"),
        (["table=parkour/hard", "init_from=x"], "'init_from' cannot be given: some rows start from the networks of"),
        (
            ["table=mtbench/mt10_rand", "rows=[vanilla,multihead]", "net=mlp"],
            "with net=mlp the rows 'vanilla' and 'multihead' are the same; leave out what they differ in, or",
        ),
    ],
)
def test_mistakes_are_one_line_before_anything_starts(words, line, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *words]) == 2
    assert line in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_words_that_change_what_is_learned_are_named_and_those_of_a_machine_are_not():
    harmless = ["device=cuda", "sim=warp", "sim.contacts_per_world=128", "algo.compile=false", "eval_episodes=9"]
    assert other_than_published(harmless) == []
    changes = ["sim.iterations=3", "sim.collision_tolerance=0.1", "num_envs=9"]
    (line,) = other_than_published([*harmless, *changes])
    assert line == f"this is not the published table: all runs have {' '.join(changes)}"
