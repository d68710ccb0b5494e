"""Truth beside verdict, per task."""

import pytest
from helpers.detectors import save_detector

from polytask.errors import UserError
from polytask.mtopt.roles import BinEvaluator
from polytask.mtopt.roles.evaluator import Evaluation, TaskResult


def test_an_evaluation_is_repeatable_and_shows_truth_beside_verdict(config):
    config.world.num_envs = 3
    config.evaluator.episodes = 4
    evaluator = BinEvaluator(config)
    with pytest.raises(UserError, match="no weights to evaluate"):
        evaluator.sync()
    first = evaluator.step(["place-any"], is_scripted=True)
    assert first.policy == "scripted"
    row = first.tasks[0]
    assert (row.task, row.episodes, row.verdict, row.script) == ("place-any", 4, None, None)
    assert row.low <= row.success <= row.high
    save_detector(config.detectors, "d1", views=3, threshold=0.0)
    evaluator.judge.sync()
    second = evaluator.step(["place-any"], is_scripted=True)
    assert second.tasks[0].success == row.success
    assert second.tasks[0].length == row.length
    assert (second.tasks[0].verdict, second.detector) == (1.0, "d1"), "all probabilities are above a threshold of zero"
    assert second.tasks[0].wrong in (1.0, None)
    assert Evaluation.load(second.plain()) == second
    save_detector(config.detectors, "d2", views=3, taught=["lift-any"])
    evaluator.judge.sync()
    third = evaluator.step(["place-any"], is_scripted=True)
    assert (third.tasks[0].verdict, third.tasks[0].wrong, third.detector) == (None, None, "d2"), "not taught"


def test_the_mean_of_an_evaluation_is_over_tasks():
    rows = [TaskResult(name, 2, value, 0.0, 1.0, None, None, None, 3.0) for name, value in (("a", 0.5), ("b", 1.0))]
    found = Evaluation("q:2", 2, "", 0, rows)
    assert found.metrics() == {"success": 0.75, "weights": 2.0, "success/a": 0.5, "success/b": 1.0}
