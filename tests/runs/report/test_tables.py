"""Tables for people and for programs."""

import csv
import io

import pytest
from helpers.report_runs import evaluation, row, write_run

from polytask.runs.report.pool import pool_runs
from polytask.runs.report.read import read_run
from polytask.runs.report.tables import comma_separated, latex, markdown, numbers, overview, task_numbers

COLUMNS, ROWS = ["a", "50 %"], [["x_y|z", 1000]]


def test_markdown():
    assert markdown(COLUMNS, ROWS) == "| a | 50 % |\n| --- | --- |\n| x_y\\|z | 1,000 |\n"


def test_latex_escapes_what_it_must():
    lines = latex(COLUMNS, ROWS).splitlines()
    assert lines[0] == r"\begin{tabular}{lr}"
    assert lines[2:5] == [r"a & 50 \% \\", r"\midrule", r"x\_y|z & 1,000 \\"]
    assert r"\$ \& \# \{ \textasciicircum{} \textbackslash{} \ldots{} \\" in latex(["a"], [["$ & # { ^ \\ …"]])


def test_csv_quotes_commas_and_leaves_out_what_is_missing():
    assert comma_separated(["a", "b", "c"], [["x,y", None, 0.5]]) == 'a,b,c\n"x,y",,0.5\n'


@pytest.fixture
def pools(tmp_path):
    for seed, rate in enumerate((0.2, 0.4)):
        rows = [row(2, {"reach": rate, "push": rate})]
        write_run(tmp_path / f"mlp-{seed}", seed=seed, rows=rows, evaluation=evaluation({"reach": 1.0, "push": rate}))
    one = [row(2, {"reach": 1.0, "push": 1.0}, length=100.0)]
    write_run(tmp_path / "moore", "net=moore", rows=one)
    return pool_runs([read_run(tmp_path / name) for name in ("mlp-0", "mlp-1", "moore")])


def test_overview_names_each_measure_and_what_its_interval_is_over(pools):
    columns, rows = overview(pools)
    assert columns == [
        "setting", "seeds", "noiseless success", "95 % interval", "IQM", "training success", "95 % interval", "IQM",
        "training return", "frames", "minutes",
    ]  # fmt: skip
    mlp, moore = rows
    assert mlp[:2] == ["mlp", 2]
    assert mlp[2] == pytest.approx(0.65)
    assert mlp[3] == "0.01 to 1.00"  # means 0.6 and 0.7, and a t of 12.7: cut at 1
    assert moore[2:5] == [None, None, None]
    assert moore[5:7] == [1.0, "0.84 to 1.00 (one seed)"]
    assert moore[8:] == [10.0, 2000, 2.0]


def test_an_interval_over_fewer_seeds_than_the_row_has_says_so(tmp_path):
    for seed, rate in enumerate((0.2, 0.4, None)):
        write_run(tmp_path / str(seed), seed=seed, rows=[row(2, {"reach": rate, "push": rate})])
    _, rows = overview(pool_runs([read_run(tmp_path / str(seed)) for seed in range(3)]))
    assert rows[0][1:4] == [3, pytest.approx(0.3), "0.00 to 1.00 (2 of 3 seeds)"]


def test_csv_has_numbers_only(pools):
    for text, names in ((numbers(pools), ("setting",)), (task_numbers(pools), ("setting", "task", "measure"))):
        for line in csv.DictReader(io.StringIO(text)):
            for name, value in line.items():
                if name not in names and value:
                    float(value)
    first, second = csv.DictReader(io.StringIO(numbers(pools)))
    assert float(first["noiseless_mean"]) == pytest.approx(0.65)
    assert (float(first["noiseless_low"]), float(first["noiseless_high"])) == pytest.approx((0.0147, 1.0), abs=1e-4)
    assert (first["noiseless_over_runs"], second["training_over_runs"], second["noiseless_mean"]) == ("1", "0", "")


def test_every_task_of_every_measure_has_a_line(pools):
    lines = list(csv.DictReader(io.StringIO(task_numbers(pools))))
    found = {(line["setting"], line["task"], line["measure"]): line for line in lines}
    assert len(found) == len(lines) == 6
    assert float(found["mlp", "push", "noiseless"]["mean"]) == pytest.approx(0.3)
    assert found["mlp", "reach", "noiseless"]["over_runs"] == "0"  # both seeds have 1.0
