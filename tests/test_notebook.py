"""The notebook's cells run, from the first to the last."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "polytask.ipynb"


def cells() -> list[str]:
    """Return the code of the notebook's cells."""
    found = json.loads(NOTEBOOK.read_text())["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == "code"]


def as_python(line: str) -> str:
    """Turn a shell line of a notebook into Python. Nothing is installed: the tests have polytask already."""
    if not line.startswith("!"):
        return line
    if line.startswith("!pip "):
        return "pass"
    return f"import subprocess, sys; subprocess.run([sys.executable, '-m', *{line[1:].split()!r}], check=True)"


def test_notebook_has_no_stored_outputs() -> None:
    found = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in found)


@pytest.mark.slow
def test_cells_run_one_after_the_other(tmp_path: Path) -> None:
    script = tmp_path / "notebook.py"
    code = "\n".join(as_python(line) for cell in cells() for line in cell.splitlines())
    script.write_text(f"{code}\nassert picture.getextrema()[0][1] > 100  # not black\n")
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rates = [float(line.split()[-1]) for line in done.stdout.splitlines()[:10]]
    assert sum(rates) / 10 > 0.9
    assert (tmp_path / "runs/notebook/checkpoint.pt").is_file()
    assert "mt50" in done.stdout
