"""Curves of several seeds."""

import numpy as np
import pytest
from helpers.report_runs import row, write_run

from polytask.runs.report.canvas import COLORS
from polytask.runs.report.curves import aligned, draw_curves, draw_run
from polytask.runs.report.pool import pool_runs
from polytask.runs.report.read import read_run


def rows(*points):
    return [{"iteration": 1, "frames": frames, "seconds": 30.0 * frames, "success": value} for frames, value in points]


def test_curves_begin_at_the_latest_first_value_and_end_at_the_earliest_last_one():
    at, values = aligned([rows((0, None), (10, 0.0), (30, 1.0)), rows((20, 0.5), (40, 0.5))], "success")
    assert (at[0], at[-1], values.shape) == (20, 30, (2, 200))
    assert values[:, 0].tolist() == [0.5, 0.5]
    assert values[:, -1].tolist() == [1.0, 0.5]


def test_minutes_are_an_axis_too():
    at, values = aligned([rows((2, 0.0), (4, 1.0))], "success", "minutes")
    assert (at[0], at[-1]) == (1.0, 2.0)
    assert values[0, [0, -1]].tolist() == [0.0, 1.0]


def test_seeds_without_values_are_left_out():
    _, values = aligned([rows((0, None)), rows((0, 0.1), (1, 0.3))], "success")
    assert len(values) == 1
    assert len(aligned([rows((0, None))], "success")[0]) == 0
    assert len(aligned([rows((0, 0.1), (1, 0.2)), rows((5, 0.1), (6, 0.2))], "success")[0]) == 0


@pytest.fixture
def pools(tmp_path):
    for seed, end in enumerate((0.2, 0.4)):
        write_run(tmp_path / str(seed), seed=seed, rows=[row(k, {"reach": k * end, "push": 0.0}) for k in (1, 2)])
    write_run(tmp_path / "moore", "net=moore")
    return pool_runs([read_run(tmp_path / name) for name in ("0", "1", "moore")])


@pytest.mark.parametrize("band, edges", [("range", (0.1, 0.2)), ("interval", (0.15 - 0.63531, 0.15 + 0.63531))])
def test_a_band_is_drawn_where_there_are_seeds(pools, band, edges):
    (axes,) = draw_curves(pools, "success", "frames", "training success", band).axes
    assert [line.get_xdata()[0] for line in axes.lines] == [1000, 1000]  # not extended to frame 0
    assert axes.lines[0].get_ydata()[0] == pytest.approx(0.15)
    assert [line.get_color() for line in axes.lines] == list(COLORS[:2])
    (band,) = axes.collections
    first = [y for x, y in band.get_paths()[0].vertices if x == 1000]
    assert (min(first), max(first)) == pytest.approx(edges, abs=1e-4)


def test_the_legend_is_below_the_axes_and_has_every_name(pools):
    figure = draw_curves(pools, "success", "frames", "training success", "range")
    figure.canvas.draw()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["mlp", "moore"]
    assert legend.get_window_extent().y1 <= figure.axes[0].get_window_extent().y0
    assert legend.get_window_extent().width <= figure.bbox.width


def test_a_metric_that_no_run_has_is_no_figure(pools):
    assert (
        draw_curves(pools, "eval/success", "frames", "noiseless success", "range") == "no run logged eval/success twice"
    )


def test_the_figure_of_one_run(tmp_path):
    path = tmp_path / "a.png"
    assert draw_run([], ["reach"], path) == "no figure: the run has no rows of metrics"
    assert draw_run([row(1, {"reach": None}), row(2, {"reach": 0.5})], ["reach"], path) == f"curves: {path}"
    assert path.read_bytes().startswith(b"\x89PNG")
    assert np.isfinite(path.stat().st_size)
