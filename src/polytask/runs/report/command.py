"""The command: read the runs, pool them, print the table and write the files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from polytask.config.schema import ReportConfig
from polytask.errors import UserError
from polytask.files import make_folder, write_text
from polytask.result import Result, Table
from polytask.runs.report.canvas import NO_MATPLOTLIB, has_matplotlib, save
from polytask.runs.report.catalog import Plan, draw_figures
from polytask.runs.report.compare import find_baseline
from polytask.runs.report.folders import find_runs
from polytask.runs.report.page import Page, write_page
from polytask.runs.report.pool import Pool, payload, pool_runs, remarks
from polytask.runs.report.published import Published, beside, find_published, published_numbers, sources
from polytask.runs.report.read import RunLog, read_run
from polytask.runs.report.tables import latex, markdown, numbers, overview, task_numbers


def report(config: ReportConfig) -> Result:
    """Run `polytask report`: pool the seeds of each setting and compare settings."""
    if not config.runs:
        raise UserError("name the runs to report on: runs=[runs/a,runs/b], or a folder that contains them: runs=runs")
    logs = [read_run(directory) for directory in find_runs(config.runs)]
    reward = one_reward(logs)
    pools = pool_runs(logs)
    if config.baseline is not None:
        find_baseline(pools, config.baseline)  # finds a mistake before any work
    tables = [Table(f"success, {reward} reward", *overview(pools))]
    found = find_published(pools) if config.paper else {}
    if found:
        tables.append(Table("beside the published figures", *beside(pools, found)))
    content = {
        "reward": reward,
        "settings": {one.name: payload(one) for one in pools},
        "published": {name: each.__dict__ for name, each in found.items()},
        "remarks": remarks(pools),
    }
    lines = [*content["remarks"], *sources(found)]
    if config.paper and not found:
        lines.append("no published figures: no run has the settings of a preset that has some")
    if config.output is not None:
        lines += write_report(Path(config.output).expanduser(), config, tables, pools, found)
    return Result(content, tables, lines)


def one_reward(logs: Sequence[RunLog]) -> str:
    """Return the reward of all runs.

    Raises:
        UserError: If there are several: what differs could then be the reward and not the method.
    """
    first = logs[0]
    for log in logs:
        if log.reward != first.reward:
            raise UserError(
                f"'{first.directory}' learned from the {first.reward} reward, but '{log.directory}' from the "
                f"{log.reward} reward; report one reward at a time"
            )
    return first.reward


def write_report(
    folder: Path, config: ReportConfig, tables: Sequence[Table], pools: Sequence[Pool], found: dict[str, Published]
) -> list[str]:
    """Write the tables, the figures and the page. Return the lines to print."""
    make_folder(folder)
    notes = (remarks(pools), sources(found))
    below = "".join(f"\n{line}\n" for lines in notes for line in lines)
    texts = {
        "report.md": "\n".join(f"**{each.title}**\n\n" + markdown(each.columns, each.rows) for each in tables) + below,
        "report.tex": "\n".join(latex(each.columns, each.rows) for each in tables),
        "report.csv": numbers(pools),
        "tasks.csv": task_numbers(pools),
    }
    if found:
        texts["published.csv"] = published_numbers(found)
    for name, text in texts.items():
        write_text(folder / name, text)
    lines = [f"tables: {', '.join(str(folder / name) for name in texts)}"]
    figures: dict[str, Any] = {}
    if has_matplotlib():
        successes = {name: each.success for name, each in found.items()}
        figures, problems = draw_figures(Plan(pools, config.baseline, config.band, successes), config.figures)
        for name, figure in figures.items():
            for ending in ("png", "pdf"):
                save(figure, folder / f"{name}.{ending}")
        if figures:
            lines.append(f"figures, as .png and .pdf: {', '.join(str(folder / name) for name in figures)}")
        lines += problems
    else:
        lines.append(NO_MATPLOTLIB)
    write_page(folder / "index.html", Page(tables, pools, figures, *notes, found))
    return [*lines, f"page: {folder / 'index.html'}"]
