"""Where our worlds and Meta-World part: by hand, and the whole script with a stand-in for Meta-World."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import metaworld_parting
import pytest
import torch
from helpers.fake_metaworld import interpreter
from metaworld_parting import Played, replay, summary, touching

import polytask
from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.scripted import ScriptedPolicy
from polytask.runs.metaworld.worlds import MetaWorldWorlds


class Theirs:
    """Worlds that show what ours have shown, but for what a test adds from some step on."""

    def __init__(self, obs, goal, start, entry, metres):
        self.obs, self.change, self.calls = obs, (goal, start, entry, metres), 0

    def step(self, action):
        goal, number = divmod(self.calls, len(self.obs))
        self.calls += 1
        assert action.tolist() == [[10.0 * goal + number]]
        row = self.obs[number, goal : goal + 1].clone()
        changed, start, entry, metres = self.change
        if goal == changed and number >= start:
            row[0, entry] += metres
        return SimpleNamespace(next_obs=row, success=torch.tensor([goal == 1 and number == 3]))


@pytest.mark.parametrize(
    ("entry", "metres", "first", "apart"),
    [(1, 0.003, 4, "hand"), (6, 0.003, 4, "first object"), (12, -0.003, 4, "second object"), (1, 0.0019, None, None)],
)
def test_the_first_difference_and_what_touches_there(monkeypatch, entry, metres, first, apart):
    monkeypatch.setattr(metaworld_parting, "STEPS", 10)
    obs = torch.randn(10, 2, 39)
    actions = torch.tensor([[[10.0 * goal + number] for goal in range(2)] for number in range(10)])
    pairs = [[{f"pair {number}"}, {"none"}] for number in range(10)]
    success = torch.zeros(10, 2, dtype=torch.bool)
    success[2, 0] = True
    theirs = cast(MetaWorldWorlds, Theirs(obs, goal=0, start=4, entry=entry, metres=metres))
    one, other = replay("reach", Played(actions, obs, success, pairs), theirs)
    assert (one["first_step_apart"], one["apart"]) == (first, apart)
    assert (one["success"], other["success"]) == ([True, False], [False, True])
    assert (other["first_step_apart"], other["touching"]) == (None, [])
    if first is not None:
        assert one["millimetres_then"] == one["millimetres_at_the_end"][apart] == 3.0
        assert one["touching"] == [f"pair {number}" for number in range(3, 8)]
    counts = summary([one, other])
    assert (counts["part"], counts["success_ours"]) == (int(first is not None), 1)


def test_shapes_that_touch_are_named():
    env = cast(MultiTaskEnv, polytask.make(tasks=["plate-slide"], num_envs=2, threads=1, seed=0))
    first, second = touching(env)
    assert first == second == set()
    expert, seen = ScriptedPolicy(env), set()
    for _ in range(60):
        env.step(expert(env.obs, env.task))
        seen |= touching(env)[0]
    assert "leftpad and puck" in seen or "puck and rightpad" in seen


def test_the_script_compares_each_goal(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(metaworld_parting, "STEPS", 4)
    monkeypatch.setattr("sys.argv", [
        "metaworld_parting.py", "--tasks", "reach", "--policy", "mt10", "--goals", "2",
        "--peer-python", interpreter(tmp_path), "--out", str(tmp_path / "out.json"),
    ])  # fmt: skip
    metaworld_parting.main()
    found = json.loads((tmp_path / "out.json").read_text())
    one = found["tasks"]["reach"]
    assert (one["goals"], one["part"]) == (2, 2)
    assert [each["first_step_apart"] for each in one["episodes"]] == [0, 0]  # the stand-in shows no hand
    assert found["metaworld"]["metaworld"] == "0.0"
