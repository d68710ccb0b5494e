"""Add an entry of a plug-in to a table, and remember where it came from."""

from __future__ import annotations

import re
import sys
from collections.abc import MutableMapping
from types import FrameType
from typing import Any

from polytask.errors import UserError
from polytask.plugins.loading import current
from polytask.plugins.needs import ORIGINS


def add_entry(kind: str, name: str, entry: Any, table: MutableMapping[str, Any], origin: str | None = None) -> None:
    """Add an entry to a table. A plug-in may replace its own, as when a notebook runs a cell again.

    Args:
        kind: What it is, such as "net".
        name: Its name.
        entry: The entry.
        table: The table.
        origin: The plug-in that it comes from (default: `origin_of_call`).

    Raises:
        UserError: If the name is not possible, or another entry has it.
    """
    origin = origin or origin_of_call()
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise UserError(f"'{name}' cannot be the name of a {kind}: use small letters, digits, - and _")
    if name in table and ORIGINS.get((kind, name)) != origin and table[name] is not entry:
        raise UserError(f"there is already a {kind} '{name}'; choose another name")
    table[name] = entry
    ORIGINS[kind, name] = origin


def origin_of_call() -> str:
    """Return the plug-in that is being imported, else the module outside the package that called it."""
    frame: FrameType | None = sys._getframe(1)
    module = "polytask"
    while frame is not None and (module == "polytask" or module.startswith("polytask.")):
        module, frame = str(frame.f_globals.get("__name__", "__main__")), frame.f_back
    return current() or module
