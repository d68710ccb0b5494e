"""The command: read the runs, pool them, print the table and write the files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from polytask.config.schema import ReportConfig
from polytask.errors import UserError
from polytask.files import make_folder, write_text
from polytask.result import Result, Table
from polytask.runs.report.canvas import NO_MATPLOTLIB, has_matplotlib, save
from polytask.runs.report.catalog import Plan, draw_figures
from polytask.runs.report.compare import find_baseline, left_out
from polytask.runs.report.folders import find_runs
from polytask.runs.report.page import Page, write_page
from polytask.runs.report.pool import payload, pool_runs
from polytask.runs.report.published import Published, beside, find_published, published_numbers, sources
from polytask.runs.report.read import RunLog, read_run
from polytask.runs.report.remarks import remarks
from polytask.runs.report.tables import latex, markdown, numbers, overview, task_numbers


@dataclass(frozen=True)
class Known:
    """What the caller knows about runs that their settings do not tell.

    Attributes:
        title: Of the page.
        names: Folder of a run -> name of its setting.
        published: Name of a setting -> what was published about it.
        remarks: Lines about all runs.
    """

    title: str
    names: Mapping[Path, str]
    published: Mapping[str, Published] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def report(config: ReportConfig, known: Known | None = None) -> Result:
    """Run `polytask report`: pool the seeds of each setting and compare settings."""
    if not config.runs:
        raise UserError("name the runs to report on: runs=[runs/a,runs/b], or a folder that contains them: runs=runs")
    logs = [read_run(directory) for directory in find_runs(config.runs)]
    reward = one_reward(logs)
    pools = pool_runs(logs, None if known is None else known.names)
    base = None if config.baseline is None else find_baseline(pools, config.baseline)  # finds a mistake before any work
    tables = [Table(f"success, {reward} reward", *overview(pools))]
    found = find_published(pools) if config.paper and known is None else {}
    if known is not None:
        found = {one.name: known.published[one.name] for one in pools if one.name in known.published}
    if found:
        tables.append(Table("beside the published figures", *beside(pools, found)))
    notes = [*(known.remarks if known else ()), *remarks(pools), *(left_out(pools, base) if base else ())]
    content = {
        "reward": reward,
        "settings": {one.name: payload(one) for one in pools},
        "published": {name: each.__dict__ for name, each in found.items()},
        "remarks": notes,
    }
    lines = [*notes, *sources(found)]
    if config.paper and not found and known is None:
        lines.append("no published figures: no run has the settings of a preset that has some")
    if config.output is not None:
        page = Page(tables, pools, {}, notes, sources(found), found, known.title if known else None)
        lines += write_report(Path(config.output).expanduser(), config, page)
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


def write_report(folder: Path, config: ReportConfig, page: Page) -> list[str]:
    """Write the tables, the figures and the page, which has no figures yet. Return the lines to print."""
    make_folder(folder)
    tables, pools, found = page.tables, page.pools, page.published
    below = "".join(f"\n{line}\n" for line in (*page.remarks, *page.sources))
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
    if has_matplotlib():
        figures, problems = draw_figures(Plan(pools, config.baseline, config.band, found), config.figures)
        for name, figure in figures.items():
            for ending in ("png", "pdf"):
                save(figure, folder / f"{name}.{ending}")
        page = replace(page, figures=figures)
        if figures:
            lines.append(f"figures, as .png and .pdf: {', '.join(str(folder / name) for name in figures)}")
        lines += problems
    else:
        lines.append(NO_MATPLOTLIB)
    write_page(folder / "index.html", page)
    return [*lines, f"page: {folder / 'index.html'}"]
