"""The table of tasks played with the behaviour of others."""

import json

import borrowed_behaviour


def test_a_behaviour_succeeds_in_its_own_task_and_where_the_goal_is_the_same(tmp_path, capsys):
    out = tmp_path / "table.json"
    words = ["--policy", "mt10", "--tasks", "drawer-close,hammer", "--episodes", "2", "--out", str(out)]
    borrowed_behaviour.main(words)
    result = json.loads(out.read_text())
    assert json.loads(capsys.readouterr().out) == result
    own, new = result["tasks"]["drawer-close"], result["tasks"]["hammer"]
    assert own["drawer-close"] == 1 and "window-open" not in new
    assert "hammer" not in new and new["pick-place"] == 1  # MT10 does not know the hammer, but pick-place swings it
    assert list(new.values()) == sorted(new.values(), reverse=True) and min(new.values()) > 0
    assert result["solved_by_another"] >= 1
