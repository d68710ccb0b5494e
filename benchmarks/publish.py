"""Print and store the result of a benchmark, with its command, code version and machine."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from polytask.runs.provenance import provenance

TABLES = ("tasks", "settings", "runs")  # keys whose value has one line for each of its own keys


def origin(device: str = "cpu") -> dict[str, Any]:
    """Return the command, the date, the code version and the machine."""
    command = " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *_portable(sys.argv[1:])])
    return {"command": command, "date": f"{datetime.now(UTC):%Y-%m-%d}", **provenance(torch.device(device))}


def publish(result: dict[str, Any], out: Path | None) -> None:
    """Print a result as one JSON object, and write it to the file `out` if there is one."""
    text = layout(result)
    print(text)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n")


def layout(result: dict[str, Any]) -> str:
    """Format an object as JSON, with one line per key, and one per task, setting and run."""
    lines = []
    for key, value in result.items():
        text = json.dumps(value)
        if key in TABLES:
            rows = [f"  {json.dumps(name)}: {json.dumps(one)}" for name, one in value.items()]
            text = "{\n" + ",\n".join(rows) + "\n }"
        lines.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}"


def _portable(words: list[str]) -> list[str]:
    """Remove `--peer-python`, whose path is valid only on this machine."""
    kept, words = [], list(words)
    while words:
        word = words.pop(0)
        if word == "--peer-python":
            words.pop(0)
        elif not word.startswith("--peer-python="):
            kept.append(word)
    return kept
