"""The page of a report: one HTML file that needs no other file and no network."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import polytask
from polytask.files import write_text
from polytask.result import Table, cell
from polytask.runs.commands import command_of
from polytask.runs.report.canvas import png
from polytask.runs.report.catalog import FIGURES
from polytask.runs.report.labels import differences, show_value
from polytask.runs.report.pool import Pool, Score, measure_titles
from polytask.runs.report.published import Published

HERE = Path(__file__).parent
SHORT_COMMIT = 10  # characters
LEGEND = (
    "Intervals are 95 %: over runs (Student's t, whole runs resampled), or over episodes (Wilson) where there is one "
    "seed or where all seeds agree. IQM is the mean of the middle half of all tasks and runs."
)
# Dark blue, over grey, to yellow: the map of colours of the figures, readable with colour blindness.
SCALE = ((0, 34, 78), (53, 69, 108), (102, 105, 112), (148, 142, 119), (200, 184, 102), (254, 232, 56))


@dataclass(frozen=True)
class Page:
    """What the page shows."""

    tables: Sequence[Table]
    pools: Sequence[Pool]
    figures: dict[str, Any]
    remarks: Sequence[str]  # about the results
    sources: Sequence[str]  # of the published figures
    published: Mapping[str, Published]
    title: str | None = None  # None: the page is named by the number of its runs


def write_page(path: Path, page: Page) -> None:
    """Write the page."""
    write_text(path, render(page))


def render(page: Page) -> str:
    """Return the page as HTML."""
    runs = sum(len(one.logs) for one in page.pools)
    first, *others = page.tables
    parts = [
        ("results", "Results", _table(first) + f'<p class="faint">{LEGEND}</p>' + _list(page.remarks)),
        *(("published", each.title.capitalize(), _table(each) + _list(page.sources)) for each in others),
        ("figures", "Figures", _figures(page.figures)),
        ("tasks", "Tasks", "".join(_task_maps(page.pools))),
        ("settings", "What differs between the settings", _differences(page.pools)),
        ("runs", "Runs", _runs(page)),
    ]
    shown = [part for part in parts if part[2]]
    links = "".join(f'<a href="#{key}">{escape(title)}</a>' for key, title, _ in shown)
    body = "".join(f'<section id="{key}"><h2>{escape(title)}</h2>{content}</section>' for key, title, content in shown)
    count = f"{runs} run{'s' * (runs != 1)} of {len(page.pools)} setting{'s' * (len(page.pools) != 1)}"
    about = first.title if page.title is None else f"{count}: {first.title}"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(page.title or 'polytask report')}</title>"
        f"<style>{_own('page.css')}</style></head><body><header><h1>{escape(page.title or count)}</h1>"
        f'<p class="faint">{escape(about)}. Written by polytask {escape(polytask.__version__)}.</p>'
        f"<nav>{links}</nav></header><main>{body}</main><script>{_own('page.js')}</script></body></html>\n"
    )


def _own(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


# Tables


def _table(table: Table) -> str:
    """Return a table whose heads sort it."""
    is_number = [any(isinstance(row[index], int | float) for row in table.rows) for index in range(len(table.columns))]
    heads = "".join(
        f'<th scope="col"{_number(each)}><button class="sort">{escape(name)}</button></th>'
        for name, each in zip(table.columns, is_number, strict=True)
    )
    return _wide(
        f'<table class="sortable"><thead><tr>{heads}</tr></thead><tbody>'
        + "".join(_row(row, is_number) for row in table.rows)
        + "</tbody></table>"
    )


def _row(row: Sequence[Any], is_number: Sequence[bool]) -> str:
    first, *rest = [
        f'data-value="{"" if value is None else escape(str(value))}"{_number(each)}>{_text(value)}'
        for value, each in zip(row, is_number, strict=True)
    ]
    return f'<tr><th scope="row" {first}</th>' + "".join(f"<td {each}</td>" for each in rest) + "</tr>"


def _text(value: Any) -> str:
    """Write a value; the two ends of an interval stay on one line."""
    return re.sub(r"(\d) to (\d)", "\\1&nbsp;to&nbsp;\\2", escape(cell(value)))


def _number(is_number: bool) -> str:
    return ' class="number"' if is_number else ""


def _wide(table: str, name: str = "") -> str:
    """Let a table that is wider than the screen move sideways, also with the keyboard."""
    label = f' aria-label="{escape(name)}"' if name else ""
    return f'<div class="wide" tabindex="0" role="group"{label}>{table}</div>'


def _list(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


# Figures and maps


def _figures(figures: dict[str, Any]) -> str:
    if not figures:
        return ""
    shown = []
    for name, figure in figures.items():
        picture, caption = b64encode(png(figure)).decode(), escape(FIGURES[name].caption)
        image = f'<div class="picture" tabindex="0"><img alt="{caption}" src="data:image/png;base64,{picture}"></div>'
        shown.append(f"<figure>{image}<figcaption>{caption}</figcaption></figure>")
    return f'<div class="figures">{"".join(shown)}</div>'


def _task_maps(pools: Sequence[Pool]) -> Iterable[str]:
    """Return a map of colours for each measure: tasks by settings."""
    for measure, title in measure_titles(pools).items():
        shown = [one for one in pools if measure in one.tasks]
        tasks = dict.fromkeys(task for one in shown for task in one.logs[0].tasks)
        heads = "".join(f'<th scope="col">{escape(one.name)}</th>' for one in shown)
        rows = "".join(
            f'<tr><th scope="row">{escape(task)}</th>'
            + "".join(_map_cell(one.tasks[measure].get(task)) for one in shown)
            + "</tr>"
            for task in tasks
        )
        yield f"<h3>{escape(title.capitalize())}</h3>"
        head = f'<thead><tr><th scope="col">task</th>{heads}</tr></thead>'
        yield _wide(f'<table class="map">{head}<tbody>{rows}</tbody></table>', title)


def _map_cell(score: Score | None) -> str:
    if score is None:
        return "<td>-</td>"
    place = score.value * (len(SCALE) - 1)
    below = min(int(place), len(SCALE) - 2)
    share = place - below
    mixed = [round(a + share * (b - a)) for a, b in zip(SCALE[below], SCALE[below + 1], strict=True)]
    ink = "#fff" if score.value < 0.5 else "#000"
    low, high = score.interval
    title = f"{low:.2f} to {high:.2f}, {score.runs} seed{'s' * (score.runs != 1)}"
    style = f"background:rgb({','.join(map(str, mixed))});color:{ink}"
    return f'<td style="{style}" title="{title}">{score.value:.2f}</td>'


# Settings and runs


def _differences(pools: Sequence[Pool]) -> str:
    found = differences([one.setting for one in pools])
    if not found:
        return ""
    heads = "".join(f'<th scope="col">{escape(one.name)}</th>' for one in pools)
    rows = "".join(
        f'<tr><th scope="row"><code>{_breakable(key, ".")}</code></th>'
        + "".join(
            f"<td>{escape(show_value(value)) if key in one.setting else '-'}</td>"
            for one, value in zip(pools, values, strict=True)
        )
        + "</tr>"
        for key, values in found.items()
    )
    return _wide(f'<table><thead><tr><th scope="col">key</th>{heads}</tr></thead><tbody>{rows}</tbody></table>')


def _answer(is_so: bool | None) -> str:
    return "-" if is_so is None else "yes" if is_so else "no"


def _runs(page: Page) -> str:
    columns = ("run", "setting", "seed", "frames", "minutes", "complete", "commit", "device", "command")
    heads = "".join(f'<th scope="col">{name}</th>' for name in columns)
    folder, names = _folders([log.directory for one in page.pools for log in one.logs])
    rows = []
    for one in page.pools:
        preset = page.published[one.name].preset if one.name in page.published else None
        for log in one.logs:
            summary = log.summary
            commit = summary.get("commit") or "-"
            is_dirty = commit.endswith("-dirty")
            short = commit[:SHORT_COMMIT] + (" (changed files)" if is_dirty else "")
            command = command_of(log.config, preset) or "these settings are not those of this version; see config.yaml"
            values = [one.name, cell(log.seed), cell(log.frames), cell(log.minutes)]
            values.append(_answer(summary.get("complete")))
            cells = "".join(f"<td>{escape(str(value))}</td>" for value in values)
            cells += f'<td title="{escape(commit)}"><code>{escape(short)}</code></td>'
            shared = f", up to {log.runs_on_device} runs at once" if (log.runs_on_device or 1) > 1 else ""
            cells += f"<td>{escape((summary.get('device') or '-') + shared)}</td>"
            cells += f"<td><details><summary>show</summary><code>{escape(command)}</code></details></td>"
            rows.append(f'<tr><th scope="row">{_breakable(names[log.directory])}</th>{cells}</tr>')
    where = f'<p class="faint">All runs are in <code>{_breakable(folder)}</code>.</p>' if folder else ""
    return where + _wide(f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>")


def _folders(runs: Sequence[Path]) -> tuple[str, dict[Path, str]]:
    """Return the folder that all runs are in, and the path of each from there; "" if they have none in common."""
    parents = [list(reversed(each.parents)) for each in runs]
    shared = [levels[0] for levels in zip(*parents, strict=False) if len(set(levels)) == 1]
    if len(runs) < 2 or not shared or not shared[-1].name:
        return "", {each: str(each) for each in runs}
    return str(shared[-1]), {each: str(each.relative_to(shared[-1])) for each in runs}


def _breakable(name: str, separator: str = "/") -> str:
    """Let a line break after the separators of a name, and elsewhere only if a part is too long for a line."""
    return escape(name).replace(separator, f"{separator}<wbr>")
