"""The tables of a report: what is printed, Markdown and LaTeX for people, and CSV with numbers only for programs."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from typing import Any

from polytask.result import cell
from polytask.runs.report.pool import Pool, Score, measure_titles
from polytask.statistics import Interval

Row = Sequence[Any]


def overview(pools: Sequence[Pool]) -> tuple[list[str], list[list[Any]]]:
    """Return the columns and rows of the main table: one row per setting, one group of columns per measure."""
    titles = measure_titles(pools)
    columns = ["setting", "seeds"]
    for title in titles.values():
        columns += [title, "95 % interval", "IQM"]
    columns += ["training return", "frames", "minutes"]
    rows = []
    for one in pools:
        row: list[Any] = [one.name, len(one.logs)]
        for measure in titles:
            score = one.scores.get(measure)
            row += [None] * 3 if score is None else [score.value, interval_text(score, len(one.logs)), score.iqm]
        reward = one.episode_return()
        rows.append([*row, reward and reward[0], one.frames[1], one.minutes])
    return columns, rows


def interval_text(score: Score, seeds: int, decimals: int = 2) -> str:
    """Write an interval, and say where it is not one over all seeds."""
    remark = ""
    if score.runs < seeds:
        remark = f"{score.runs} of {seeds} seeds"
    if not score.is_over_runs:
        remark = "one seed" if score.runs == 1 else "equal seeds"
    return ends_text(score.interval, decimals) + (f" ({remark})" if remark else "")


def ends_text(interval: Interval, decimals: int = 3) -> str:
    """Write the ends of an interval; beside published figures with three decimals, as those have."""
    low, high = interval
    return f"{low:.{decimals}f} to {high:.{decimals}f}"


def numbers(pools: Sequence[Pool]) -> str:
    """Return the main table as comma-separated values: names of settings, and numbers."""
    measures = list(measure_titles(pools))
    kinds = ("mean", "low", "high", "iqm", "seeds", "over_runs")
    columns = ["setting", "seeds", *(f"{measure}_{kind}" for measure in measures for kind in kinds)]
    rows = []
    for one in pools:
        row: list[Any] = [one.name, len(one.logs)]
        for measure in measures:
            row += _numbers(one.scores.get(measure))
        value, bounds = one.episode_return() or (None, None)
        rows.append([*row, value, *(bounds or (None, None)), *one.frames, one.minutes])
    ends = ["return_mean", "return_low", "return_high", "frames_low", "frames_high", "minutes"]
    return comma_separated([*columns, *ends], rows)


def task_numbers(pools: Sequence[Pool]) -> str:
    """Return the success of every task as comma-separated values, one row per setting, task and measure."""
    rows = [
        [one.name, task, measure, *_numbers(score)]
        for one in pools
        for measure, scores in one.tasks.items()
        for task, score in scores.items()
    ]
    columns = ["setting", "task", "measure", "mean", "low", "high", "iqm", "seeds", "over_runs"]
    return comma_separated(columns, rows)


def _numbers(score: Score | None) -> list[Any]:
    if score is None:
        return [None] * 6
    return [score.value, *score.interval, score.iqm, score.runs, int(score.is_over_runs)]


def markdown(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Return a Markdown table."""
    lines = [list(columns), ["---"] * len(columns), *([cell(value) for value in row] for row in rows)]
    return "".join(f"| {' | '.join(each.replace('|', chr(92) + '|') for each in line)} |\n" for line in lines)


_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "…": r"\ldots{}"}


def latex(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Return a LaTeX tabular with booktabs rules."""
    texts = [list(columns), *([cell(value) for value in row] for row in rows)]
    head, *body = [" & ".join(map(_escape, line)) + r" \\" for line in texts]
    inner = "\n".join([r"\toprule", head, r"\midrule", *body, r"\bottomrule"])
    return f"\\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}\n{inner}\n\\end{{tabular}}\n"


def _escape(text: str) -> str:
    """Escape what LaTeX would not print."""
    return re.sub(r"[\\~^…&%$#_{}]", lambda sign: _LATEX.get(sign[0], "\\" + sign[0]), text)


def comma_separated(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Return comma-separated values; what is missing is empty."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns, *rows])
    return text.getvalue()
