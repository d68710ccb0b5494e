"""Panels of tasks: readable with two tasks and with fifty."""

import warnings

import numpy as np
import pytest

from polytask.envs.suites import SUITES
from polytask.runs.report.canvas import STYLES, legend_below, png, styled
from polytask.runs.report.task_panels import (
    MOST_LINES,
    MOST_SETTINGS,
    TaskPanel,
    draw_values,
    panel_grid,
    task_styles,
    too_many,
)

FRAMES = np.linspace(0.0, 1e6, 20)


def panel(tasks, setting="a", network="critic"):
    """Return a panel whose tasks have constant values 1, 2, 3, ..."""
    return TaskPanel(setting, network, FRAMES, {task: np.full(20, 1.0 + place) for place, task in enumerate(tasks)})


def draw(panels):
    with styled():
        figure, places = panel_grid(panels, [1.6])
        styles = task_styles(panels)
        for one, (axes,) in zip(panels, places, strict=True):
            draw_values(axes, one, styles)
        legend_below(figure, *(axes for (axes,) in places))
    return figure, [axes for (axes,) in places]


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_actor_and_critic_of_a_setting_stand_side_by_side():
    panels = [panel("xy", "a", "actor"), panel("xy", "a"), panel("xy", "b"), panel("xy", "c", "actor")]
    _, axes = draw(panels)
    spans = [each.get_subplotspec() for each in axes]
    assert [(each.rowspan.start, each.colspan.start) for each in spans] == [(0, 0), (0, 1), (1, 1), (2, 0)]
    assert [each.get_title() for each in axes] == ["a: actor", "a: critic", "b: critic", "c: actor"]


def test_panels_of_one_network_fill_two_columns():
    figure, axes = draw([panel("xy", setting) for setting in "abc"])
    spans = [each.get_subplotspec() for each in axes]
    assert [(each.rowspan.start, each.colspan.start) for each in spans] == [(0, 0), (0, 1), (1, 0)]
    assert [each.get_visible() for each in figure.axes] == [True, True, True, False]


def test_a_task_has_one_style_in_all_panels_and_one_entry_in_the_legend():
    figure, (first, second) = draw([panel(["push", "reach"], "a"), panel(["reach", "door-open", "push"], "b")])
    styles = {}
    for line in (*first.lines, *second.lines):
        styles.setdefault(line.get_label(), set()).add((line.get_color(), line.get_linestyle()))
    assert styles.keys() == {"push", "reach", "door-open"}
    assert all(len(each) == 1 for each in styles.values())
    assert len(set.union(*styles.values())) == 3
    assert legend(figure) == ["push", "reach", "door-open"]


def test_many_tasks_are_summarized_and_the_extremes_are_named():
    names = [f"t{number:02}" for number in range(1, MOST_LINES + 2)]
    figure, (few, many) = draw([panel(names[:-1], "few"), panel(names, "many")])
    assert [len(few.lines), len(many.lines)] == [MOST_LINES, 1]
    assert many.lines[0].get_ydata()[0] == 7.0  # the median of 1 to 13
    edges = [(band.get_paths()[0].vertices[:, 1].min(), band.get_paths()[0].vertices[:, 1].max())
             for band in many.collections]  # fmt: skip
    assert edges == [(1.0, 13.0), (4.0, 10.0)]
    assert many.get_xlabel() == "frames\nhighest: t13 13, t12 12, t11 11\nlowest: t01 1, t02 2, t03 3"
    summary = ["lowest to highest task", "middle half of the tasks", "median of the tasks"]
    assert sorted(legend(figure)) == sorted([*names[:-1], *summary])


def test_more_tasks_than_styles_are_summarized_in_every_panel():
    panels = [panel([f"{letter}{number}" for number in range(11)], letter) for letter in "abc"]
    assert STYLES < 3 * 11
    _, axes = draw(panels)
    assert [len(each.lines) for each in axes] == [1, 1, 1]


@pytest.mark.parametrize(
    "suites", [["mt50"], ["mt10", "mt50"], ["mt50"] * 5, pytest.param(["mt10"] * MOST_SETTINGS, marks=pytest.mark.slow)]
)
def test_all_letters_fit_and_nothing_overlaps(suites):
    panels = [panel(SUITES[suite], f"{suite} {number}", network)
              for number, suite in enumerate(suites) for network in ("actor", "critic")]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib warns if the parts do not fit
        figure, axes = draw(panels)
        assert png(figure).startswith(b"\x89PNG")
        figure.canvas.draw()
    boxes = [each.get_tightbbox() for each in axes] + [figure.legends[0].get_window_extent()]
    for number, one in enumerate(boxes):
        assert figure.bbox.x0 - 1 <= one.x0 and one.x1 <= figure.bbox.x1 + 1
        assert figure.bbox.y0 - 1 <= one.y0 and one.y1 <= figure.bbox.y1 + 1
        assert not any(one.shrunk(0.99, 0.99).overlaps(other) for other in boxes[number + 1 :])
    inches = [each.get_window_extent().height / figure.dpi for each in axes]
    assert min(inches) > 1.2


def test_a_figure_has_room_for_some_settings():
    panels = [panel("xy", str(number)) for number in range(MOST_SETTINGS + 1)]
    assert too_many(panels[:-1]) is None
    assert too_many(panels) == "a figure of tasks and networks has room for 16 settings; report fewer at once"
