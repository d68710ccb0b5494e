"""The cost of gradient methods."""

import json

import pytest

from polytask.cli.main import main
from polytask.grads import GRADS

SMALL = ["bench", "what=grads", "algo.minibatch=30", "net.hidden=[8]", "iterations=1", "steps=1", "format=json"]


def test_times_every_method_relative_to_the_mean(capsys):
    assert main([*SMALL, "num_tasks=[2,5]", "grads.apply_to=both"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["what"], result["minibatch"], result["apply_to"]) == ("grads", 30, "both")
    assert set(result["milliseconds"]) == {"2", "5"}
    for count, times in result["milliseconds"].items():
        assert set(times) == set(GRADS)
        assert result["relative_to_mean"][count]["pcgrad"] == pytest.approx(times["pcgrad"] / times["mean"])
        assert min(times.values()) > 0
    assert result.keys() >= {"device", "version", "commit", "torch"}


@pytest.mark.parametrize(
    ("word", "message"),
    [("num_tasks=[51]", "at most 50"), ("num_tasks=[0]", "num_tasks=0 is not valid"), ("algo=sac", "algo=ppo")],
)
def test_refuses_what_it_cannot_measure(capsys, word, message):
    words = [each for each in SMALL if not (word == "algo=sac" and each.startswith("algo."))]
    assert main([*words, word]) == 2
    assert message in capsys.readouterr().err
