"""Which runs a name means."""

import pytest
from helpers.report_runs import write_run

from polytask.errors import UserError
from polytask.runs.report.folders import find_runs


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("sweep/a/seed-0", "sweep/a/seed-1", "sweep/b/x/seed-0", "other"):
        write_run(tmp_path / name)
    return tmp_path


def names(found):
    return [str(path) for path in found]


def test_a_folder_that_contains_runs_is_walked(runs):
    assert names(find_runs(["sweep"])) == ["sweep/a/seed-0", "sweep/a/seed-1", "sweep/b/x/seed-0"]
    assert names(find_runs(["sweep/b", "other"])) == ["sweep/b/x/seed-0", "other"]


def test_patterns_match_runs_and_folders_of_runs(runs):
    assert names(find_runs(["sweep/*/seed-?"])) == ["sweep/a/seed-0", "sweep/a/seed-1"]
    assert names(find_runs(["s*"])) == names(find_runs(["sweep"]))
    assert names(find_runs(["**/seed-0"])) == ["sweep/a/seed-0", "sweep/b/x/seed-0"]


def test_a_name_with_signs_of_a_pattern_is_a_name_if_it_exists(runs):
    folder = write_run(runs / "tasks=[a,b]")
    assert names(find_runs([str(folder)])) == [str(folder)]


def test_one_run_counts_once(runs):
    for other in ("sweep/a/seed-0", "sweep/a", "sweep/../sweep/a/seed-*"):
        with pytest.raises(UserError) as caught:
            find_runs(["sweep", other])
        first, _, second = str(caught.value).partition(" and ")
        assert first == "runs names one run twice: 'sweep/a/seed-0' by runs=sweep"
        assert second.endswith("seed-0'" if other.endswith("seed-0") else f"seed-0' by runs={other}")
    with pytest.raises(UserError, match=r"'sweep/a/seed-0' by runs=sweep and 'sweep/a/seed-0'$"):
        find_runs(["sweep", "sweep/a/seed-0"])


def test_what_means_no_run_is_refused(runs):
    (runs / "empty").mkdir()
    with pytest.raises(UserError, match=r"'empty' is not a run directory: .*no folder in it is one either"):
        find_runs(["empty"])
    with pytest.raises(UserError, match=r"no run matches 'nothing\*'"):
        find_runs(["nothing*"])
    with pytest.raises(UserError, match=r"^there is no folder 'nothere'$"):
        find_runs(["nothere"])


def test_a_run_of_mtopt_is_named_as_one(runs, capsys):
    (runs / "bins").mkdir()
    (runs / "bins/run.json").write_text("{}")
    (runs / "bins/metrics.jsonl").write_text('{"iteration": 1, "kind": "collect"}\n')
    line = r"'bins' is a run of `polytask mtopt`.*see `polytask mtopt status run_dir=bins`"
    with pytest.raises(UserError, match=line):
        find_runs(["bins"])
    assert names(find_runs(["*"])) == names(find_runs(["other", "sweep"]))
    assert "'bins' is a run of `polytask mtopt`; it is left out\n" in capsys.readouterr().err


def test_a_run_that_has_only_begun_is_left_out_with_a_note(runs, capsys):
    write_run(runs / "sweep/a/seed-2", rows=[])
    assert len(find_runs(["sweep"])) == 3
    assert capsys.readouterr().err == "'sweep/a/seed-2' has no rows of metrics yet; it is left out\n"
