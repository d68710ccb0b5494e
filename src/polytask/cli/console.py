"""Print the result of a command to stdout, as one JSON object or as tables and lines."""

from __future__ import annotations

import json
import sys

from rich.console import Console
from rich.table import Table as RichTable

from polytask.files import finite
from polytask.result import Result, Table, cell


def show(result: Result, output_format: str) -> None:
    """Print a result as `table` or `json`."""
    if output_format == "json":
        sys.stdout.write(json.dumps(finite(result.payload)) + "\n")
        sys.stdout.flush()
        return
    # A log file has no width, so use a fixed one that does not cut tables.
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 160)
    for each in result.tables:
        console.print(draw(each))
    for line in result.lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def draw(table: Table) -> RichTable:
    """Lay out a table, with columns of numbers right-aligned."""
    cells = [[cell(value) for value in row] for row in table.rows]
    result = RichTable(title=table.title, title_justify="left", title_style="bold", header_style="bold")
    for index, column in enumerate(table.columns):
        is_number = all(_is_number(row[index]) for row in cells) and bool(cells)
        result.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in cells:
        result.add_row(*row)
    return result


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "").replace("-", "").replace("e", "").isdigit() or text == "-"
