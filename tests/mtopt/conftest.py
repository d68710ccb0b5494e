"""A finished run that tests of damage copy."""

import shutil
from pathlib import Path

import pytest
from helpers.tiny_run import tiny

from polytask.mtopt.runtime.local import LocalRuntime


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory):
    """Run once."""
    pytest.importorskip("fastapi")  # the stand-in labels through the page
    root = tmp_path_factory.mktemp("finished") / "bins"
    runtime = LocalRuntime(tiny(root), lambda line: None)
    runtime.run()
    runtime.close()
    (root / "second_answers.jsonl").write_text('{"task": "lift-any", "episode": 1, "first": true, "second": true}')
    return root


@pytest.fixture
def run_copy(finished_run, tmp_path):
    """Return a run that a test may change."""
    return Path(shutil.copytree(finished_run, tmp_path / "bins"))


@pytest.fixture
def call(capsys):
    """Run a command line; return exit code, stdout and stderr."""
    from polytask.cli.main import main

    def run(*words):
        capsys.readouterr()
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return code, out, err

    return run
