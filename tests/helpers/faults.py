"""Run scripts of `benchmarks/faults` in a process of their own, which forks: pytest's own process has threads."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faults.process import GOOD

SERVER = Path(__file__).with_name("fault_scripts.py")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@contextmanager
def scripts() -> Iterator[subprocess.Popen]:
    """Start the process that runs scripts. It imports everything once, which takes longer than most scripts."""
    code = f"import runpy; runpy.run_path({str(SERVER)!r}, run_name='__main__')"  # with the scripts' folder in the path
    command = [sys.executable, "-c", code]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=BENCHMARKS, stdin=pipe, stdout=pipe, text=True) as process:
        yield process
        process.stdin.close()


def run_script(process, name, folder, count, *words):
    """Return the result of a sample of cases."""
    out = folder / "result.json"
    process.stdin.write(json.dumps([str(folder), name, "--out", str(out), "--count", str(count), *words]) + "\n")
    process.stdin.flush()
    code = process.stdout.readline().strip()
    assert out.is_file(), (code, (folder / "stderr.txt").read_text())
    return json.loads(out.read_text())


def wrong_rows(result):
    """Return the rows that are neither right nor a clean refusal, short enough to read."""
    return [row for row in result["rows"] if row["verdict"] not in GOOD]
