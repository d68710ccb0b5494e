"""The weights of tasks, from what a learner logs to the figure."""

import json

import pytest
from helpers.report_runs import row, write_run

from polytask.cli.main import main
from polytask.runs.report.pool import pool_runs
from polytask.runs.report.read import read_run
from polytask.runs.report.weights import draw_weights, weight_names

TINY = ["preset=cpu_demo", "tasks=[reach,drawer-close]", "num_envs=4", "episode_length=8", "algo.horizon=4"]
TINY += ["algo.minibatch=8", "device=cpu", "sim=cpu", "eval_episodes=0", "threads=1", "max_iterations=4", "video=false"]


def weights(group, *values):
    return {f"per_task/{task}/{group}_weight": value for task, value in zip(("reach", "push"), values, strict=True)}


@pytest.mark.parametrize(
    ("group", "network"), [("value", "critic"), ("critic", "critic"), ("policy", "actor"), ("actor", "actor")]
)
def test_weights_are_found_by_the_names_that_learners_give_them(group, network):
    rows = [{"per_task/reach/value_loss": 1.0, "loss/weight": 0.0}, weights(group, 0.1, 0.9)]
    names = {task: f"per_task/{task}/{group}_weight" for task in ("reach", "push")}
    assert weight_names(rows, ["reach", "push"]) == {network: names}


def test_weights_are_means_over_the_seeds(tmp_path):
    for seed, end in enumerate((0.2, 0.6)):
        rows = [row(k, {"reach": 0.5, "push": 0.5}, **weights("value", 0.5 * k * end, 1.0)) for k in (1, 2)]
        write_run(tmp_path / str(seed), seed=seed, rows=rows)
    (axes,) = draw_weights(pool_runs([read_run(tmp_path / seed) for seed in "01"])).axes
    assert axes.get_title() == "reach+push ppo mlp: critic"
    ends = {line.get_label(): line.get_ydata()[[0, -1]].tolist() for line in axes.lines}
    assert ends == {"reach": pytest.approx([0.2, 0.4]), "push": [1.0, 1.0]}
    assert axes.lines[0].get_xdata()[[0, -1]].tolist() == [1000, 2000]


def test_runs_without_them_have_no_figure(tmp_path):
    pools = pool_runs([read_run(write_run(tmp_path / "run"))])
    assert draw_weights(pools) == "no setting logged the weights of its tasks"


def test_the_weights_of_a_real_run_are_drawn(tmp_path, capsys):
    run, out = tmp_path / "run", tmp_path / "out"
    assert main(["train", *TINY, "grads=famo", f"run_dir={run}"]) == 0
    assert main(["report", f"runs=[{run}]", f"output={out}", "figures=[weights]"]) == 0
    assert (out / "weights.png").is_file()
    assert "no figure" not in capsys.readouterr().out
    logged = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    (axes,) = draw_weights(pool_runs([read_run(run)])).axes
    assert axes.get_title().split()[-1] == "critic"
    for line, task in zip(axes.lines, ("reach", "drawer-close"), strict=True):
        known = [each[f"per_task/{task}/value_weight"] for each in logged]
        assert line.get_label() == task
        assert line.get_ydata()[[0, -1]].tolist() == pytest.approx([known[0], known[-1]])
    assert sum(line.get_ydata()[-1] for line in axes.lines) == pytest.approx(1.0)
