"""The scripts of MT-Opt's experiments, for the tests."""

import importlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "mtopt"


@pytest.fixture
def load(monkeypatch):
    """Import a script as if it were run from its folder."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module
