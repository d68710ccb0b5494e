"""The command: what it prints, writes and refuses."""

import json

import pytest
from helpers.report_runs import evaluation, row, write_run

from polytask.cli.main import main
from polytask.config.schema import REPORT_FIGURES, ReportConfig
from polytask.errors import UserError
from polytask.runs.report import report
from polytask.runs.report.catalog import FIGURES


def test_the_figures_that_can_be_named_are_those_that_there_are():
    assert tuple(FIGURES) == REPORT_FIGURES


def test_the_table_names_the_reward_and_the_measure(tmp_path):
    run = write_run(tmp_path / "run", "reward=shaped", evaluation=evaluation({"reach": 1.0, "push": 0.5}))
    result = report(ReportConfig(runs=[str(run)]))
    assert (result.payload["reward"], result.tables[0].title) == ("shaped", "success, shaped reward")
    found = result.payload["settings"]["reach+push ppo mlp"]
    assert (found["noiseless"]["mean"], found["training"]["mean"]) == pytest.approx((0.75, 0.3))
    assert (found["seeds"], found["frames"]) == ([0], [2000, 2000])
    json.dumps(result.payload)


def test_runs_of_different_rewards_are_not_mixed(tmp_path):
    dense, shaped = write_run(tmp_path / "dense"), write_run(tmp_path / "shaped", "reward=shaped")
    with pytest.raises(UserError) as caught:
        report(ReportConfig(runs=[str(dense), str(shaped)]))
    assert str(caught.value) == (
        f"'{dense}' learned from the dense reward, but '{shaped}' from the shaped reward; report one reward at a time"
    )


@pytest.fixture
def runs(tmp_path):
    for seed in range(2):
        for name in ("mlp", "moore"):
            rows = [row(k, {"reach": 0.1 * k + 0.1 * seed, "push": 0.1}) for k in (1, 2, 3)]
            write_run(tmp_path / "runs" / name / str(seed), f"net={name}", seed=seed, rows=rows)
    return tmp_path / "runs"


def test_all_figures_that_the_runs_have_numbers_for_are_written(runs, tmp_path):
    result = report(ReportConfig(runs=[str(runs)], output=str(tmp_path / "out"), baseline="mlp"))
    drawn = {"curves", "minutes", "reward", "bars", "tasks", "difference", "improvement"}
    files = {path.name for path in (tmp_path / "out").iterdir()}
    tables = {"report.md", "report.tex", "report.csv", "tasks.csv", "index.html"}
    assert files == tables | {f"{name}.{ending}" for name in drawn for ending in ("png", "pdf")}
    assert (tmp_path / "out" / "curves.pdf").read_bytes().startswith(b"%PDF")
    assert result.lines[-1] == f"page: {tmp_path / 'out' / 'index.html'}"


def test_evaluations_during_training_are_a_figure_of_their_own(tmp_path):
    rows = [row(k, {"reach": 0.1, "push": 0.1}, **{"eval/success": 0.2 * k}) for k in (1, 2)]
    run = write_run(tmp_path / "run", rows=rows)
    report(ReportConfig(runs=[str(run)], output=str(tmp_path / "out"), figures=["evaluations"]))
    assert (tmp_path / "out" / "evaluations.png").is_file()


def test_named_figures_are_written_or_the_reason_is(runs, tmp_path):
    config = ReportConfig(runs=[str(runs)], output=str(tmp_path / "out"), figures=["bars", "weights"])
    lines = report(config).lines
    assert "no figure weights: no setting logged the weights of its tasks" in lines
    assert {path.name for path in (tmp_path / "out").glob("*.pdf")} == {"bars.pdf"}


def test_figures_without_a_folder_are_refused(runs, capsys):
    assert main(["report", f"runs={runs}", "figures=[curves]"]) == 2
    assert capsys.readouterr().err == "polytask: figures need output=FOLDER, where they are written\n"


def test_a_figure_that_needs_a_baseline_asks_for_it(runs, tmp_path):
    with pytest.raises(UserError, match="need baseline=NAME; the settings are: mlp, moore"):
        report(ReportConfig(runs=[str(runs)], output=str(tmp_path / "out"), figures=["difference"]))
    with pytest.raises(UserError, match="there is no setting 'care'"):
        report(ReportConfig(runs=[str(runs)], baseline="care"))


def test_settings_that_the_baseline_is_not_compared_with_are_named(tmp_path):
    write_run(tmp_path / "mlp", evaluation=evaluation({"reach": 1.0, "push": 0.5}))
    write_run(tmp_path / "moore", "net=moore", evaluation=evaluation({"reach": 1.0, "push": 0.5}))
    write_run(tmp_path / "bro", "net=bro")
    runs = [str(tmp_path / name) for name in ("mlp", "moore", "bro")]
    line = "not compared with mlp: bro (no noiseless success)"
    result = report(ReportConfig(runs=runs, baseline="mlp"))
    assert line in result.lines and line in result.payload["remarks"]
    assert line not in report(ReportConfig(runs=runs)).lines


def test_tables_are_written_without_matplotlib(runs, tmp_path, monkeypatch):
    monkeypatch.setattr("polytask.runs.report.canvas.find_spec", lambda name: None)
    lines = report(ReportConfig(runs=[str(runs)], output=str(tmp_path / "out"))).lines
    assert "no figure: it needs an extra, pip install 'polytask[report]'" in lines
    assert "<img" not in (tmp_path / "out" / "index.html").read_text()


def test_without_a_preset_there_are_no_published_figures(runs):
    result = report(ReportConfig(runs=[str(runs)], paper=True))
    assert result.lines == ["no published figures: no run has the settings of a preset that has some"]
    assert len(result.tables) == 1
