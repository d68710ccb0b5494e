"""`polytask eval env=metaworld`: both sides play the same goals, and the table shows both."""

import os

import numpy as np
import pytest
import torch
from helpers.fake_metaworld import interpreter

from polytask.config.compose import compose
from polytask.config.schema import CollectConfig, EvalConfig, TrainConfig
from polytask.errors import UserError
from polytask.runs.checkpoint import load
from polytask.runs.eval_command import run_eval
from polytask.runs.evaluate import Outcome
from polytask.runs.metaworld import compare as compare_module
from polytask.runs.metaworld.compare import compare, contrast
from polytask.runs.train import train

WORDS = ["tasks=[reach,drawer-close]", "episodes=3", "episode_length=4", "threads=1", "env=metaworld"]
TASKS = ("a", "b")


def outcome(success):
    success = np.array(success, dtype=np.float64)
    return Outcome(success, 0.5 * success, 3.0 * success)


def test_differences_are_paired_by_goal():
    ours = outcome([[1, 1], [1, 0], [1, 1], [1, 0]])
    result = contrast(ours, outcome([[1, 0], [1, 1], [1, 0], [1, 1]]), TASKS)
    assert result["tasks"]["a"]["difference"] == 0
    assert result["tasks"]["a"]["interval"] == [0, 0]
    assert result["tasks"]["b"]["difference"] == 0  # the same rate, but never at the same goal
    low, high = result["tasks"]["b"]["interval"]
    assert low < 0 < high
    assert contrast(ours, ours, TASKS)["interval"] == [0, 0]


def test_ours_minus_theirs():
    result = contrast(outcome([[1, 0], [1, 1]]), outcome([[0, 0], [0, 1]]), TASKS)
    assert [result["tasks"][task]["difference"] for task in TASKS] == [1, 0]
    assert result["difference"] == 0.5
    assert (result["ours"]["mean_success"], result["original"]["mean_success"]) == (0.75, 0.25)
    assert result["tasks"]["a"]["ours"]["success_by_goal"] == [1, 1]
    assert result["tasks"]["a"]["original"]["success_at_end"] == 0
    assert result["episodes"] == 2


def test_both_sides_play_the_goals_of_meta_world(tmp_path, monkeypatch):
    seen = []
    play = compare_module.Evaluator.play
    monkeypatch.setattr(
        compare_module.Evaluator, "play", lambda self, *rest: (seen.append(self.env.obs), play(self, *rest))[1]
    )
    config = compose(EvalConfig, [*WORDS, "policy=scripted", "seed=0", f"metaworld_python={interpreter(tmp_path)}"])
    result = run_eval(config)
    targets = seen[0].view(2, 3, -1)[0, :, -3:]  # of reach: the last three numbers of its vector
    assert torch.allclose(targets, torch.tensor([0.05, 0.8, 0.1]))
    starts = seen[0].view(2, 3, -1)[0, :, 4]  # of its object: the first number of the vector
    assert torch.allclose(starts, torch.tensor([0.0, 0.001, 0.002]), atol=1e-4)
    (table,) = result.tables
    assert [row[0] for row in table.rows] == ["reach", "drawer-close", "mean"]
    original = result.payload["tasks"]["reach"]["original"]
    assert original["success_by_goal"] == [0, 1, 0]  # as the stand-in has it
    assert original["success_at_end"] == 0
    assert original["return"] == 1 + 2 + 3 + 4
    assert result.payload["metaworld"]["metaworld"] == "0.0"
    mean = dict(zip(table.columns, table.rows[-1], strict=True))
    assert mean["Meta-World"] == pytest.approx(1 / 3)


def test_a_comparison_with_noise_says_so(tmp_path):
    run = tmp_path / "run"
    words = [WORDS[0], "num_envs=2", "algo.horizon=2", "algo.minibatch=4", "max_iterations=1", "eval_episodes=0"]
    train(compose(TrainConfig, [*words, "episode_length=4", "threads=1", "video=false", f"run_dir={run}"]))
    own = [f"checkpoint={run}", "explore=true", f"metaworld_python={interpreter(tmp_path)}"]
    result = run_eval(compose(EvalConfig, [*WORDS, *own], saved=load(run)["config"]))
    assert result.payload["explore"] is True
    assert result.tables[0].title.endswith(", with exploration noise")


def test_an_interpreter_is_needed():
    with pytest.raises(UserError, match=r"pip install metaworld==.*metaworld_python=mw/bin/python"):
        compose(EvalConfig, [*WORDS, "policy=random"])


@pytest.mark.parametrize("word", ["metaworld_python=python", "metaworld_workers=2"])
def test_settings_of_meta_world_need_it(word):
    with pytest.raises(UserError, match="applies only with env=metaworld"):
        compose(EvalConfig, ["policy=random", word])


@pytest.mark.parametrize(("words", "robot"), [(["robot=panda"], "panda"), (["tasks=[beam]"], "go1")])
def test_other_robots_are_refused_before_anything_starts(words, robot):
    config = compose(EvalConfig, [*WORDS, "policy=random", "metaworld_python=/no/python", *words])
    with pytest.raises(UserError, match=f"only the robot sawyer; this policy is for {robot}"):
        compare(config)


def test_episodes_are_collected_in_our_worlds_only():
    with pytest.raises(UserError, match="env"):
        compose(CollectConfig, ["policy=scripted", "env=metaworld"])


@pytest.mark.slow
@pytest.mark.skipif("POLYTASK_METAWORLD_PYTHON" not in os.environ, reason="needs an interpreter with metaworld")
def test_our_experts_succeed_in_the_original():
    python = os.environ["POLYTASK_METAWORLD_PYTHON"]
    words = ["env=metaworld", "policy=scripted", "suite=mt10", "episodes=3", "episode_length=500"]
    payload = run_eval(compose(EvalConfig, [*words, f"metaworld_python={python}"])).payload
    assert payload["original"]["mean_success"] > 0.9
    assert abs(payload["difference"]) < 0.1
