"""Read and write files: a write is complete or has no effect, and a missing or damaged file is a one-line error."""

from __future__ import annotations

from polytask.files.json_files import JsonLines, LogRow, finite, parse_json, read_json, read_json_lines
from polytask.files.reading import Fields, can_read, check_fields, exists
from polytask.files.tensors import check_finite, load_tensors, restore, save_tensors
from polytask.files.writing import (
    can_write,
    is_being_written,
    make_folder,
    remove_stale_parts,
    write_atomically,
    write_text,
)

__all__ = [
    "Fields",
    "JsonLines",
    "LogRow",
    "can_read",
    "can_write",
    "check_fields",
    "check_finite",
    "exists",
    "finite",
    "is_being_written",
    "load_tensors",
    "make_folder",
    "parse_json",
    "read_json",
    "read_json_lines",
    "remove_stale_parts",
    "restore",
    "save_tensors",
    "write_atomically",
    "write_text",
]
