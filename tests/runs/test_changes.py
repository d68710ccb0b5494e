"""A run continues as the experiment that it began as; what changes of its learning is told."""

import json

import pytest
import yaml
from helpers.report_runs import row, write_run

from polytask.cli.main import main
from polytask.config.compose import compose, to_plain
from polytask.config.schema import TrainConfig
from polytask.errors import UserError
from polytask.runs.changes import changes, require_same
from polytask.runs.checkpoint import load
from polytask.runs.report.pool import pool_runs
from polytask.runs.report.read import read_run
from polytask.runs.report.remarks import remarks

TINY = ["tasks=[reach]", "num_envs=2", "episode_length=20", "algo.horizon=8", "algo.minibatch=16", "threads=1"]
FREE = ["eval_episodes=0", "video=false"]


def settings(*words, saved=None):
    return compose(TrainConfig, list(words), saved=saved and to_plain(saved))


@pytest.mark.parametrize(
    ("word", "began", "left"),
    [
        ("seed=1", "seed=0", "seed"),
        ("reward=sparse", "reward=dense", "reward"),
        ("reward_scale=0.5", "the default reward_scale", "reward_scale"),
        ("goals=fixed", "the default goals", "goals"),
        ("robot=panda", "the default robot", "robot"),
        ("termination_on_success=true", "the default termination_on_success", "termination_on_success"),
        ("episode_length=30", "episode_length=20", "episode_length"),
        ("tuning.mirror=true", "tuning.mirror=false", "tuning.mirror"),
        ("tasks=[push]", "tasks=[reach]", "tasks"),
        ("suite=mt10", "tasks=[reach]", "suite"),
        ("num_envs=4", "num_envs=2", "num_envs"),
        ("envs_per_task=[3]", "num_envs=2", "envs_per_task"),
        ("net=moore", "net=mlp", "net"),
        ("net.hidden=[8,8]", "net.hidden=[", "net.hidden"),
        ("critic_net=mlp", "the default critic_net", "critic_net"),
        ("algo=grpo", "algo=ppo", "algo"),
        ("grads=pcgrad", "grads=mean", "grads"),
    ],
)
def test_what_makes_another_experiment_is_refused(word, began, left):
    saved = settings(*TINY)
    with pytest.raises(UserError) as caught:
        require_same("runs/mine", saved, settings(word, saved=saved))
    line = str(caught.value)
    assert line.startswith(f"runs/mine was trained with {began}")
    assert line.endswith(f"; leave {left} out, or start a new run with init_from=runs/mine")


def test_what_stays_is_no_change():
    saved = settings(*TINY, "algo.lr=1e-3", "net.hidden=[16]")
    for words in ([], ["seed=0", "algo.lr=1e-3"], ["algo=ppo", "net=mlp"], ["max_frames=9", "device=cpu", *FREE]):
        now = settings(*words, saved=saved)
        require_same("runs/mine", saved, now)
        assert changes(saved, now, 5) == []
    suite = settings("suite=mt10")
    require_same("runs/mine", suite, settings(f"tasks=[{','.join(suite.task_names)}]", saved=suite))


def test_a_continued_run_tells_and_keeps_what_it_changes(tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["train", *TINY, *FREE, f"run_dir={run}", "max_iterations=1"]) == 0
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    capsys.readouterr()
    assert main(["train", f"checkpoint={run}", "max_iterations=2", "reward=sparse"]) == 2
    assert capsys.readouterr().err == (
        f"polytask: {run} was trained with reward=dense; leave reward out, or start a new run with init_from={run}\n"
    )
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before

    lr = yaml.safe_load((run / "config.yaml").read_text())["algo"]["lr"]
    assert main(["train", f"checkpoint={run}", "max_iterations=2", "algo.lr=1e-3"]) == 0
    assert f"changed since the start: algo.lr {lr} -> 0.001\n" in capsys.readouterr().err
    assert main(["train", f"checkpoint={run}", "max_iterations=3"]) == 0
    assert "changed since the start" not in capsys.readouterr().err
    change = {"frames": 16, "setting": "algo.lr", "before": str(lr), "after": "0.001"}
    assert load(run)["changes"] == json.loads((run / "start.json").read_text())["changes"] == [change]


def test_a_report_names_runs_that_changed(tmp_path):
    run = write_run(tmp_path / "run", rows=[row(2, {"reach": 0.0, "push": 0.0})])
    change = {"frames": 1000, "setting": "algo.lr", "before": "0.0005", "after": "0.001"}
    (run / "start.json").write_text(json.dumps({"changes": [change, {**change, "frames": 2000}]}))
    lines = [line for line in remarks(pool_runs([read_run(run)])) if "changed" in line]
    assert lines == [f"reach+push ppo mlp: '{run}' changed algo.lr 0.0005 -> 0.001 after 1,000 frames"]


def test_a_finished_run_says_how_to_go_on(tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["train", *TINY, *FREE, f"run_dir={run}", "max_frames=20"]) == 0
    for words, line in (
        ([], "already at 32 of 20 frames; give max_frames= above that to continue\n"),
        (["max_frames=9"], "already at 32 of 9 frames; give max_frames= above that to continue\n"),
        (["max_frames=99", "max_iterations=2"], "already at 2 of 2 iterations; give max_iterations= above that"),
    ):
        capsys.readouterr()
        assert main(["train", f"checkpoint={run}", *words]) == 0
        assert line in capsys.readouterr().err
    assert main(["train", f"checkpoint={run}", "max_frames=40", "max_iterations=null"]) == 0
    assert "already at" not in capsys.readouterr().err
