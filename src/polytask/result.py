"""The result that a command returns, and the messages that it prints while it runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Table:
    """A table to print; `cli.console` draws it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass
class Result:
    """The result of a command: `payload` is printed with `format=json`, `tables` and `lines` otherwise."""

    payload: dict[str, Any]
    tables: list[Table] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    exit_code: int = 0


class Share(float):
    """A share such as a success rate that stands beside a published one: tables show three decimals."""


def note(line: str) -> None:
    """Print a message on stderr while a command runs, since stdout is kept for the result."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def cell(value: Any) -> str:
    """Format a value for a table."""
    if value is None:
        return "-"
    if isinstance(value, Share):
        return f"{value:.3f}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if 0 < abs(value) < 0.01 else f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
