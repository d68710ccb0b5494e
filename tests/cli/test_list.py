"""`polytask list`."""

import json

import pytest

from polytask.config.schema import ListConfig
from polytask.envs.suites import SUITES
from polytask.settings import choices_of


@pytest.mark.parametrize("kind", choices_of(ListConfig, "kind"))
def test_list(run, kind):
    rows = json.loads(run("list", kind, "format=json")[1])[kind]
    code, out, _ = run("list", kind)
    assert code == 0
    assert rows or kind in ("policies", "plugins")  # there may be none
    assert all(row["name"] in out for row in rows)


def test_list_can_be_limited_to_a_suite(run):
    rows = json.loads(run("list", "tasks", "suite=ml10-test", "format=json")[1])["tasks"]
    assert [row["name"] for row in rows] == list(SUITES["ml10-test"])
    assert rows[1]["suites"] == ["mt50", "ml10-test", "ml45-train"]


def test_lists_are_lists_in_json_and_words_in_a_table(run):
    (suite, *_) = json.loads(run("list", "suites", "format=json")[1])["suites"]
    assert suite["names"] == list(SUITES["mt10"])
    (algo, *_) = json.loads(run("list", "algos", "format=json")[1])["algos"]
    assert "gamma" in algo["settings"]
    assert "[" not in run("list", "suites")[1]


def test_list_sizes_networks_for_a_suite(run):
    small, large = (
        {
            row["name"]: row
            for row in json.loads(run("list", "nets", "params=true", f"suite={s}", "format=json")[1])["nets"]
        }
        for s in ("mt10", "mt50")
    )
    # 40 more one-hot inputs into the first hidden layer of 256.
    assert large["mlp"]["policy"] - small["mlp"]["policy"] == 40 * 256
