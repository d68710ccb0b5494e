"""The command line and the result file that the scripts of this folder share."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from publish import origin

from faults.process import GOOD, remove


def arguments(about: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that all scripts have."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--count", type=int, help="number of cases, a random sample (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample and of what is random in the cases")
    parser.add_argument("--jobs", type=int, default=1, help="cases that run side by side")
    return parser


@contextmanager
def scratch() -> Iterator[Path]:
    """Make a folder for the cases, which is removed at the end."""
    root = Path(tempfile.mkdtemp(prefix="polytask-faults-"))
    root.chmod(0o755)
    try:
        yield root
    finally:
        remove(root)


def finish(out: Path, rows: Sequence[dict[str, Any]], summary: dict[str, Any]) -> None:
    """Write the result, one line per case, print the summary, and exit with code 1 if a case went wrong."""
    script = f"python -m faults.{Path(sys.argv[0]).stem}"
    head = {**origin(), "command": " ".join([script, *sys.argv[1:]]), "cases": len(rows), **summary}
    lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
    table = ",\n  ".join(json.dumps(row) for row in rows)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("{\n" + ",\n".join(lines) + f',\n "rows": [\n  {table}\n ]\n}}\n')
    print(json.dumps(summary, indent=1))
    sys.exit(any(row["verdict"] not in GOOD for row in rows))
