"""The tables of an evaluation."""

from polytask.mtopt.evaluation_tables import evaluation_result
from polytask.mtopt.roles.evaluation import Evaluation, TaskResult


def row(task, success, one_action):
    simple = {"end now": 0.1, "random": 0.2}
    return TaskResult(task, 4, success, 0.0, 1.0, None, None, 0.4, 3.0, {"move": 0.5, "end": 0.5}, simple, one_action)


def shown(*rows):
    return evaluation_result(Evaluation("q:1", 1, "", 0, list(rows)), "runs/x")


def test_the_policy_stands_beside_itself_with_one_action_and_beside_simple_ones():
    result = shown(row("a", 0.6, 0.0), row("b", 0.8, 0.5))
    table = result.tables[1]
    assert table.columns == ("task", "q:1", "same policy, one action", "end now", "random", "scripts")
    assert list(table.rows[1]) == ["b", 0.8, 0.5, 0.1, 0.2, 0.4]
    assert list(table.rows[-1]) == ["mean", 0.7, 0.25, 0.1, 0.2, 0.4]
    best = "best policy that sees nothing, from the same starts: random, mean success 0.200"
    assert result.lines[1:] == [best, "scripts, which read the simulator: mean success 0.400"]
    assert table.title == "success, from the same starts"


def test_without_it_the_column_is_missing():
    assert "same policy, one action" not in shown(row("a", 0.6, None)).tables[1].columns
