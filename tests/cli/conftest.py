"""A function that runs a command line."""

import pytest

from polytask.cli.main import main


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Return a function that runs a command in an empty folder and returns its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*words):
        capsys.readouterr()
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return code, out, err

    return call
