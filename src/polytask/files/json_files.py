"""JSON objects, and logs with one JSON object per line. A damaged line of a log is skipped."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from polytask.errors import UserError
from polytask.files.reading import Fields, check_fields, exists, open_file
from polytask.files.writing import can_write, write_text
from polytask.result import note

LogRow = dict[str, float | int | None]  # one line of a log: numbers by name

_LARGEST = int(sys.float_info.max)


def finite(value: Any) -> Any:
    """Replace NaN and infinity, which JSON does not have, by None."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return value


def parse_json(text: str | bytes) -> Any:
    """Return the value that a JSON text stands for; None if it is not JSON."""
    try:
        return json.loads(text if isinstance(text, str) else text.decode("utf-8"))
    except (ValueError, RecursionError):  # not UTF-8, not JSON, too many digits; nested too deeply
        return None


def read_json(path: Path, what: str, fields: Fields) -> dict[str, Any]:
    """Read a JSON object.

    Args:
        path: The file.
        what: The kind of file, for messages, such as "summary of a run".
        fields: The fields that the object must have, and their types.

    Raises:
        UserError: If there is no such file, it is not a JSON object, or a field is missing or has another type.
    """
    with open_file(path, what) as file:
        state = parse_json(file.read())
    if not isinstance(state, dict):
        raise UserError(f"'{path}' cannot be read: it is not a {what} in JSON")
    check_fields(state, fields, path)
    return state


class JsonLines:
    """A file to which rows are appended, one JSON object per line. Written lines survive a crash."""

    def __init__(self, path: Path, keep: list[LogRow]) -> None:
        """Create the file with the rows in `keep`, which an earlier part of the run wrote."""
        write_text(path, "".join(json.dumps(finite(row)) + "\n" for row in keep))
        self._path = path
        with can_write(path):
            self._file = path.open("a", encoding="utf-8")

    def write(self, row: LogRow) -> None:
        """Append one row and flush the file."""
        with can_write(self._path):
            self._file.write(json.dumps(finite(row)) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        with can_write(self._path):
            self._file.close()


def read_json_lines(path: Path, until: int | None = None, *, is_numeric: bool = False) -> list[LogRow]:
    """Read the rows of a log up to and including iteration `until`. If there is no file, there are no rows.

    A line that is not a row is skipped, and a note tells how many there were. A kill leaves such a line.

    Args:
        path: The log.
        until: The last iteration to read.
        is_numeric: Whether a row contains only numbers, and no text.

    Raises:
        UserError: If the operating system refuses.
    """
    if not exists(path):
        return []
    with open_file(path, "log") as file:
        lines = file.read().splitlines()
    valid = (int, float) if is_numeric else (int, float, str)
    rows = [row for row in map(parse_json, lines) if _is_row(row, valid)]
    if len(rows) < len(lines):
        note(f"'{path}': {len(lines) - len(rows)} of {len(lines)} lines cannot be read; they are skipped")
    return [row for row in rows if until is None or row["iteration"] <= until]


def _is_row(row: Any, valid: tuple[type, ...]) -> bool:
    """Return whether a value is a row of a log: values of these types by name, with an iteration."""
    if not isinstance(row, dict) or type(row.get("iteration")) is not int:
        return False
    return all(value is None or (isinstance(value, valid) and _is_finite(value)) for value in row.values())


def _is_finite(value: Any) -> bool:
    """Return whether a value is text or a number that a float can hold."""
    return isinstance(value, str) or abs(value) <= _LARGEST
