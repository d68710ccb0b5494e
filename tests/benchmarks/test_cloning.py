"""Cloning demonstrations and nothing else, the comparison beside runs that begin with them."""

import json

import cloning
import pytest

from polytask.cli.main import main
from polytask.errors import UserError

WORDS = "tasks=[drawer-close] net=mlp threads=1"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "expert"
    words = ["tasks=[drawer-close]", "policy=scripted", "episodes=4", "threads=1", f"output={folder}"]
    assert main(["collect", *words]) == 0
    return folder


def test_a_policy_that_was_only_shown_the_task_succeeds(data, tmp_path):
    rows = {}
    for updates in (1, 400):
        out = tmp_path / f"{updates}.json"
        words = [str(data), "--words", WORDS, "--seeds", "0", "1", "--updates", str(updates), "--episodes", "4"]
        cloning.main([*words, "--out", str(out)])
        result = json.loads(out.read_text())
        assert f"--words '{WORDS}' --seeds 0 1 --updates {updates} --episodes 4" in result["command"]
        assert {"device", "version", "commit", "torch"} <= set(result)
        rows[updates] = result["rows"]
    for seed, (begun, learned) in enumerate(zip(rows[1], rows[400], strict=True)):
        assert begun["seed"] == learned["seed"] == seed
        assert begun["episodes_shown"] == {"drawer-close": 4} and learned["evaluation"]["episodes"] == 4
        assert learned["loss"] < 0.1 * begun["loss"]
        assert learned["evaluation"]["mean_success"] == 1.0 > begun["evaluation"]["mean_success"]


def test_other_worlds_are_refused(data):
    with pytest.raises(UserError, match="this run has none of these tasks"):
        cloning.main([str(data), "--words", "tasks=[reach] threads=1"])
