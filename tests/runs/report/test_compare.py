"""Figures that compare the results of settings."""

import pytest
from helpers.report_runs import evaluation, row, write_run

from polytask.errors import UserError
from polytask.runs.report.compare import (
    draw_bars,
    draw_difference,
    draw_improvement,
    draw_tasks,
    find_baseline,
    left_out,
)
from polytask.runs.report.pool import pool_runs
from polytask.runs.report.published import Published
from polytask.runs.report.read import read_run


@pytest.fixture
def pools(tmp_path):
    for words, name, rates in (
        ((), "mlp", (0.2, 0.4)),
        (("net=moore",), "moore", (0.5, 0.7)),
        (("net=bro",), "bro", (0.9,)),
    ):
        for seed, rate in enumerate(rates):
            found = {} if name == "bro" else {"evaluation": evaluation({"reach": rate, "push": rate + 0.1})}
            rows = [row(2, {"reach": rate, "push": rate})]
            write_run(tmp_path / f"{name}-{seed}", *words, seed=seed, rows=rows, **found)
    return pool_runs([read_run(path) for path in sorted(tmp_path.iterdir())])


def names(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def dots(axes):
    """Return each dot with the ends of its interval."""
    found = {}
    for container in axes.containers:
        (dot, _, (bars,)) = container
        (left, y), (right, _) = bars.get_segments()[0]
        found[names(axes)[round(y)]] = (dot.get_xdata()[0], left, right)
    return found


def theirs(success, measure):
    return Published("", "", "", measure, "", "", "", success)


def test_bars_show_each_measure_with_its_interval(pools):
    (axes,) = draw_bars(pools, {}).axes
    assert names(axes) == ["bro", "mlp", "moore"]
    assert sorted(bar.get_width() for bar in axes.patches) == pytest.approx([0.3, 0.35, 0.6, 0.65, 0.9])
    assert "faded: training success" in " ".join(axes.get_xlabel().split())
    drawn = [segment[:, 0].tolist() for each in axes.collections for segment in each.get_segments()]
    known = [list(score.interval) for one in pools for score in one.scores.values()]
    assert sorted(drawn) == [pytest.approx(ends) for ends in sorted(known)]
    assert axes.get_xlim() == (0.0, 1.0)


def test_published_successes_are_marked_on_the_bars(pools):
    found = {"mlp": theirs(0.75, "training"), "moore": theirs(0.5, "noiseless"), "care": theirs(0.1, "training")}
    (axes,) = draw_bars(pools, found).axes
    marked = {line.get_marker(): line.get_xydata().tolist() for line in axes.lines if line.get_marker() in ("D", "s")}
    assert marked == {"D": [[0.75, 1.0]], "s": [[0.5, 2.0]]}
    label = " ".join(axes.get_xlabel().split())
    assert "diamond: published training success; square: published noiseless success" in label
    (axes,) = draw_bars(pools, {"mlp": theirs(0.75, "training")}).axes
    assert "square" not in axes.get_xlabel()


def test_difference_to_a_baseline_uses_a_measure_that_both_have(pools):
    baseline = find_baseline(pools, "mlp")
    (axes,) = draw_difference(pools, baseline).axes
    assert dots(axes).keys() == {"moore"}  # bro has no evaluation
    value, low, high = dots(axes)["moore"]
    assert value == pytest.approx(0.3)
    assert low < 0.0 < value < high
    assert "noiseless success minus that of mlp" in axes.get_xlabel()


def test_settings_that_are_not_compared_are_named(pools, tmp_path):
    assert left_out(pools, find_baseline(pools, "mlp")) == ["not compared with mlp: bro (no noiseless success)"]
    assert left_out(pools, find_baseline(pools, "bro")) == []
    rates = {"reach": 0.5, "door-open": 0.5}
    write_run(tmp_path / "other", "net=care", rows=[row(2, rates)], evaluation=evaluation(rates))
    other = pool_runs([read_run(tmp_path / "other")], {tmp_path / "other": "other"})
    assert left_out([*pools, *other], pools[1]) == [
        "not compared with mlp: bro (no noiseless success)",
        "not compared with mlp: other (other tasks)",
    ]


def test_difference_to_a_setting_that_was_not_evaluated_compares_training(pools):
    (axes,) = draw_difference(pools, find_baseline(pools, "bro")).axes
    assert {name: value[0] for name, value in dots(axes).items()} == pytest.approx({"mlp": -0.6, "moore": -0.3})
    assert "training success minus that of bro" in axes.get_xlabel()


def test_probability_of_improvement(pools):
    (axes,) = draw_improvement(pools, find_baseline(pools, "moore")).axes
    value, low, high = dots(axes)["mlp"]
    assert (value, low) == (0.0, 0.0)
    assert 0.5 < high < 1.0  # two seeds prove little
    assert draw_improvement(pools, find_baseline(pools, "bro")).startswith(
        "a probability of improvement needs two seeds"
    )


def test_an_unknown_baseline_is_refused(pools):
    with pytest.raises(UserError, match="there is no setting 'mlpp'; did you mean 'mlp'"):
        find_baseline(pools, "mlpp")
    with pytest.raises(UserError, match="need baseline=NAME; the settings are: bro, mlp, moore"):
        find_baseline(pools, None)


def test_the_map_of_tasks_has_a_cell_per_task_and_setting(pools):
    axes, _ = draw_tasks(pools).axes
    assert names(axes) == ["reach", "push"]
    assert [text.get_text() for text in axes.texts] == [
        "0.90",
        "0.30",
        "0.60",
        "0.90",
        "0.30",
        "0.60",
    ]  # the training success, which all have
