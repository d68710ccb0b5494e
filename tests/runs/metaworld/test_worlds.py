"""Meta-World's worlds over pipes: every task gets its own actions, goals and results, in any number of processes."""

import pytest
import torch
from helpers.fake_metaworld import interpreter

from polytask.errors import UserError
from polytask.runs.metaworld.worlds import MetaWorldWorlds

TASKS = ("push", "reach", "drawer-close")  # of numbers 2, 0 and 1 in the stand-in
CPU = torch.device("cpu")


@pytest.fixture
def python(tmp_path):
    return interpreter(tmp_path)


def build(python, length=5, workers=2, tasks=TASKS):
    return MetaWorldWorlds(python, tasks, length, workers=workers, device=CPU)


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_rows_are_in_the_order_of_the_tasks(python, workers):
    with build(python, workers=workers) as worlds:
        worlds.open(episodes=2, seed=0)
        assert worlds.task.tolist() == [0, 1, 2]
        assert worlds.obs[:, 0].tolist() == [2, 0, 1]
        action = torch.arange(12.0).view(3, 4) / 12
        step = worlds.step(action)
        assert torch.equal(worlds.obs[:, 3:7], action)
        assert step.reward.tolist() == [1, 1, 1]


def test_actions_are_clipped(python):
    with build(python) as worlds:
        worlds.open(episodes=1, seed=0)
        worlds.step(torch.tensor([[2.0, -3.0, 0.5, 9.0]]).expand(3, 4))
        assert worlds.obs[0, 3:7].tolist() == [1, -1, 0.5, 1]


def test_every_episode_has_the_next_goal_and_the_given_length(python):
    with build(python) as worlds:
        worlds.open(episodes=2, seed=3)
        seen = []
        for _ in range(3 * 5):
            goal = worlds.obs[:, 1]
            step = worlds.step(torch.zeros(3, 4))
            seen.append((int(goal[0]), bool(step.truncated.all()), int(step.next_obs[0, 2]), int(step.obs[0, 2])))
            assert (goal == goal[0]).all()
            assert not step.terminated.any()
    ends = [(False, 1, 1), (False, 2, 2), (False, 3, 3), (False, 4, 4), (True, 5, 0)]
    assert seen == [(goal, *end) for goal in (300, 301, 300) for end in ends]  # the first goal follows the last one


def test_success_is_that_of_the_last_step(python):
    with build(python, length=2) as worlds:
        worlds.open(episodes=2, seed=0)
        scores = [(worlds.step(torch.zeros(3, 4)).success.tolist(), worlds.score.tolist()) for _ in range(4)]
    no, yes = ([False] * 3, [0.0] * 3), ([True] * 3, [1.0] * 3)
    assert scores == [no, no, no, yes]  # goal 1, its second step, which is also the last


def test_goals_are_those_of_mt1_and_of_the_next_seeds(python):
    with build(python, tasks=("reach",), length=1) as worlds:
        worlds.open(episodes=52, seed=2**32 - 1)
        assert worlds.goals["reach"].shape == (52, 6)
        assert worlds.goals["reach"][[0, 49, 50, 51], 0].tolist() == pytest.approx([0.0, 0.049, 0.0, 0.001])
        goals = [int(worlds.step(torch.zeros(1, 4)).next_obs[0, 1]) for _ in range(52)]
        assert goals[50:] == [0, 1]  # seeds wrap


def test_a_reset_in_the_middle_of_an_episode_starts_the_next_one(python):
    with build(python) as worlds:
        worlds.open(episodes=3, seed=0)
        worlds.step(torch.zeros(3, 4))
        assert worlds.reset()[:, 1:3].tolist() == [[1, 0]] * 3  # goal and steps
        assert worlds.reset()[:, 1].tolist() == [2] * 3
        for _ in range(5):
            worlds.step(torch.zeros(3, 4))
        assert worlds.obs[:, 1:3].tolist() == [[0, 0]] * 3


def test_actions_must_be_numbers(python):
    with build(python) as worlds:
        worlds.open(episodes=1, seed=0)
        with pytest.raises(UserError, match="not a number"):
            worlds.step(torch.full((3, 4), torch.nan))


def test_versions_are_told(python):
    with build(python) as worlds:
        assert worlds.versions["metaworld"] == "0.0"
        assert {"gymnasium", "mujoco", "numpy"} < worlds.versions.keys()


def test_an_interpreter_without_metaworld_is_one_line(tmp_path):
    python = interpreter(tmp_path)
    (tmp_path / "packages" / "metaworld.py").unlink()
    with pytest.raises(UserError) as caught:
        build(python)
    line = str(caught.value)
    assert f"metaworld_python={python}"[:40] in line
    assert "No module named 'metaworld'" in line
    assert "pip install metaworld==" in line
    assert "\n" not in line


@pytest.mark.parametrize(("python", "said"), [("/no/python", "No such file"), ("/bin/cat", "cannot run")])
def test_a_wrong_interpreter_is_one_line(python, said):
    with pytest.raises(UserError, match=said) as caught:
        build(python)
    assert "\n" not in str(caught.value)


def test_a_task_that_meta_world_does_not_have_is_one_line(python):
    with build(python, tasks=("juggle",)) as worlds, pytest.raises(UserError, match="juggle-v3 is not a V3"):
        worlds.open(episodes=1, seed=0)


def test_a_worker_that_dies_is_one_line(python, monkeypatch):
    monkeypatch.setenv("FAKE_DEATH", "2")
    with build(python) as worlds:
        worlds.open(episodes=1, seed=0)
        worlds.step(torch.zeros(3, 4))
        with pytest.raises(UserError, match=r"ended \(exit code 1\): MuJoCo is sad"):
            worlds.step(torch.zeros(3, 4))


def test_the_processes_end_with_the_worlds(python):
    with build(python) as worlds:
        worlds.open(episodes=1, seed=0)
        worlds.step(torch.zeros(3, 4))  # in the middle of an episode
        processes = [each._process for each in worlds._processes]
    assert len(processes) == 2
    assert all(each.returncode == 0 for each in processes)
