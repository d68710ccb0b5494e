"""A diverged learner stops the run with one line, and the last good checkpoint is kept."""

import json
import math

import pytest
import torch

from polytask.algos import ALGOS
from polytask.cli.main import main
from polytask.config.compose import compose
from polytask.config.schema import TrainConfig
from polytask.runs.checkpoint import load
from polytask.runs.divergence import DivergedError, check_metrics, check_state, not_finite
from polytask.runs.run import open_run

TINY = ["tasks=[reach,push]", "num_envs=4", "episode_length=8", "net.hidden=[16]", "threads=1"]
TINY += ["eval_episodes=0", "video=false"]
WORDS = {
    "ppo": ["algo.horizon=8", "algo.minibatch=8"],
    "grpo": ["algo.minibatch=8"],
    "pqn": ["algo.horizon=8", "algo.minibatches=4"],
    "sac": ["algo.batch=8", "algo.steps_per_iteration=8", "algo.learning_starts=2", "algo.capacity=1000"],
    "fast_td3": ["algo.batch=8", "algo.steps_per_iteration=8", "algo.learning_starts=2", "algo.capacity=1000"],
}


@pytest.mark.parametrize("name", ALGOS)
def test_a_diverged_run_stops_and_continues_with_a_lower_learning_rate(tmp_path, capsys, name):
    folder = tmp_path / "run"
    words = ["train", f"algo={name}", *TINY, *WORDS[name]]
    assert main([*words, f"run_dir={folder}", "max_iterations=1", "save_every=1"]) == 0
    capsys.readouterr()

    assert main(["train", f"checkpoint={folder}", "max_iterations=9", "save_every=1", "algo.lr=1e18"]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("polytask: the learner diverged in iteration 2: ")
    assert " loss/" in line
    checkpoint = folder / "checkpoint.pt"
    assert line.endswith(f"checkpoint is '{checkpoint}' (iteration 1); a lower algo.lr usually helps")
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["complete"] is False
    assert f"polytask: {summary['reason']}" == line
    state = load(folder)
    assert state["iteration"] == 1
    assert not_finite(state["algo"]) == []

    assert main(["train", f"checkpoint={folder}", "max_iterations=2", "algo.lr=1e-4"]) == 0
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["complete"], summary["reason"], summary["iterations"]) == (True, None, 2)


def row(**metrics):
    return {"iteration": 12, "success": None, **metrics}


def test_half_of_the_updates_may_leave_out_a_task():
    check_metrics(row(**{"skipped/critic": 0.5, "per_task/push/critic_loss": math.nan}), ["reach", "push"])
    with pytest.raises(DivergedError):
        check_metrics(row(**{"skipped/critic": 0.51}), ["reach", "push"])


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        ([1], "loss/critic of 'b' is"),
        ([0, 3], "loss/critic of 'a', 'd' is"),
        ([0, 1, 2, 3], "loss/critic of 'a', 'b', 'c' and 1 more is"),
        ([0, 1, 2, 3, 4], "loss/critic of all tasks is"),
        ([], "the gradient of loss/critic is"),
    ],
)
def test_the_line_names_loss_tasks_and_iteration(bad, what):
    tasks = ["a", "b", "c", "d", "e"]
    losses = {f"per_task/{task}/critic_loss": math.inf if k in bad else 1.0 for k, task in enumerate(tasks)}
    with pytest.raises(DivergedError) as error:
        check_metrics(row(**losses, **{"skipped/actor": 0.0, "skipped/critic": 0.75}), tasks)
    assert str(error.value) == f"the learner diverged in iteration 12: {what} not finite in 75% of the updates"


def test_a_loss_without_a_logged_value_is_named_too():
    with pytest.raises(DivergedError, match="the gradient of loss/alpha"):
        check_metrics(row(**{"skipped/alpha": 1.0}), ["reach"])


def spoiled(algo, place):
    """Put NaN into one tensor of an algorithm's state, in place, and return its name."""
    learner = algo["learners"]["critic"]
    tensor = {
        "critic.net.trunk.weight": lambda: next(iter(learner["net"].values())),
        "critic.optimizer": lambda: learner["optimizer"][0]["exp_avg"],
        "critic.grads": lambda: learner["grads"]["simplex"],
        "value_norm.mean": lambda: algo["value_norm"]["mean"],
    }[place]()
    tensor.view(-1)[-1] = math.nan


@pytest.mark.parametrize("place", ["critic.net.trunk.weight", "critic.optimizer", "critic.grads", "value_norm.mean"])
def test_nothing_that_is_not_finite_is_saved(tmp_path, place):
    words = [*TINY, *WORDS["ppo"], "grads=mgda", "max_iterations=2", f"run_dir={tmp_path / 'run'}"]
    run, _ = open_run(compose(TrainConfig, words))
    run.algo.iterate(run.env)
    run.save()
    run.iteration = 1
    state = run.algo.state_dict()
    spoiled(state, place)
    with pytest.raises(DivergedError, match=f"by iteration 1: NaN or infinity in {place.split('.')[0]}"):
        run.save()
    run.close()
    assert load(tmp_path / "run")["iteration"] == run.saved_iteration == 0
    (name,) = not_finite(state)
    with pytest.raises(DivergedError, match=name):
        check_state(state, 1)


@pytest.mark.gpu
def test_the_state_of_a_gpu_learner_is_read_at_once():
    finite, bad = torch.ones(3, device="cuda"), torch.tensor([1.0, math.inf], device="cuda")
    learner = {"net": {"a": finite, "b": bad}, "optimizer": {0: {"step": torch.tensor(1.0)}}, "grads": {}}
    assert not_finite({"learners": {"actor": learner}}) == ["actor.b"]
