"""Run a script of `benchmarks/faults` in a process of its own, which forks: pytest's own process has threads."""

import json
import subprocess
import sys
from pathlib import Path

from faults.process import GOOD

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def run_script(name, folder, count, *words):
    """Return the result of a sample of cases."""
    out = folder / "result.json"
    command = [sys.executable, "-m", f"faults.{name}", "--out", str(out), "--count", str(count), *words]
    done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, timeout=600)
    assert out.is_file(), done.stderr
    return json.loads(out.read_text())


def wrong_rows(result):
    """Return the rows that are neither right nor a clean refusal, short enough to read."""
    return [row for row in result["rows"] if row["verdict"] not in GOOD]
