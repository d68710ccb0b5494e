"""Reports: tables, pooling over seeds, and conflicts between gradients."""

import json
import shutil

import pytest

from polytask.config.schema import ReportConfig
from polytask.errors import UserError
from polytask.runs.report import RunLog, comma_separated, conflict_panels, latex, markdown, pool, read_run, report

COLUMNS, ROWS = ["a", "50 %"], [["x_y", "1,000"]]


def test_markdown():
    assert markdown(COLUMNS, ROWS) == "| a | 50 % |\n| --- | --- |\n| x_y | 1,000 |\n"


def test_latex_escapes_what_it_must():
    lines = latex(COLUMNS, ROWS).splitlines()
    assert lines[0] == r"\begin{tabular}{lr}"
    assert lines[2:5] == [r"a & 50 \% \\", r"\midrule", r"x\_y & 1,000 \\"]


def test_csv_quotes_commas():
    assert comma_separated(COLUMNS, ROWS) == 'a,50 %\nx_y,"1,000"\n'


@pytest.fixture
def directory(tmp_path):
    records = [{"iteration": 1, "frames": 10, "success": 0.25, "success/a": 0.5, "success/b": None}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    names = "".join(
        f"{group}: {{name: {name}}}\n" for group, name in (("algo", "ppo"), ("net", "mlp"), ("grads", "mean"))
    )
    (tmp_path / "config.yaml").write_text(f"suite: {{name: mt10}}\ntasks: null\n{names}")
    return tmp_path


def test_a_run_without_evaluation_counts_its_training_episodes(directory):
    log = read_run(directory)
    assert (log.setting, log.tasks, log.final()) == ("mt10 ppo mlp mean", ["a", "b"], [0.5, 0.0])


def test_a_run_with_evaluation_counts_that(directory):
    evaluation = {"tasks": {"a": {"success": 1.0}, "b": {"success": 0.75}}}
    (directory / "summary.json").write_text(json.dumps({"evaluation": evaluation}))
    assert read_run(directory).final() == [1.0, 0.75]


def test_pooling_averages_over_seeds_and_tasks(tmp_path):
    logs = [
        RunLog(tmp_path / "none", "s", [{"frames": frames, "success/a": a, "success/b": b}])
        for frames, a, b in ((10, 0.0, 1.0), (30, 0.5, 1.0))
    ]
    result = pool(logs)
    assert (result["seeds"], result["frames"], result["mean"]) == (2, 30, 0.625)
    assert result["tasks"] == {"a": 0.25, "b": 1.0}
    assert result["interval"] == [0.5, 0.75]  # b is constant; the mean of a is 0, 0.25 or 0.5


def copy_with_reward(directory, folder, reward):
    shutil.copytree(directory, folder)
    (folder / "config.yaml").write_text((directory / "config.yaml").read_text() + f"reward: {reward}\n")
    return folder


def test_the_table_names_the_reward(directory, tmp_path_factory):
    run = copy_with_reward(directory, tmp_path_factory.mktemp("shaped") / "run", "shaped")
    result = report(ReportConfig(runs=[str(run)]))
    assert (result.payload["reward"], result.tables[0].title) == ("shaped", "success, shaped reward")
    assert report(ReportConfig(runs=[str(directory)])).payload["reward"] == "dense"


def test_runs_of_different_rewards_are_not_mixed(directory, tmp_path_factory):
    run = copy_with_reward(directory, tmp_path_factory.mktemp("shaped") / "run", "shaped")
    with pytest.raises(UserError) as caught:
        report(ReportConfig(runs=[str(directory), str(run)]))
    assert str(caught.value) == (
        f"'{directory}' learned from the dense reward, but '{run}' from the shaped reward; report one reward at a time"
    )


def conflict_record(frames, cosines, norms):
    names = ("cosine_min", "cosine_mean", "cosine_max", "norms/a", "norms/b")
    return {"frames": frames} | {
        f"conflict/critic/{name}": x for name, x in zip(names, (*cosines, *norms), strict=True)
    }


def test_conflicts_are_averaged_over_seeds_at_the_frames_of_the_measurements():
    first = [{"frames": 5}, conflict_record(10, (-1.0, 0.0, 0.5), (1, 2)), conflict_record(20, (0, 0.5, 1), (3, 4))]
    second = [conflict_record(10, (0, 0.2, 0.5), (3, 4)), conflict_record(20, (0, 0.5, 1), (3, 4))]
    (panel,) = conflict_panels({"setting": [first, second], "without": [[{"frames": 5}]]})
    assert panel.title == "setting: critic"
    assert panel.frames.tolist() == [10, 20]
    assert panel.cosine.tolist() == [[-0.5, 0], [0.1, 0.5], [0.5, 1]]
    assert {task: norm.tolist() for task, norm in panel.norms.items()} == {"a": [2, 3], "b": [3, 4]}


def test_conflicts_are_drawn_next_to_the_curves(directory, tmp_path):
    record = {"iteration": 2, "success": 0.5, "success/a": 0.5, "success/b": None} | conflict_record(
        20, (0, 0, 1), (1, 2)
    )
    with (directory / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(record) + "\n")
    lines = report(ReportConfig(runs=[str(directory)], output=str(tmp_path / "out"))).lines
    assert lines[-1] == f"conflicts: {tmp_path / 'out' / 'conflicts.png'}"
    assert (tmp_path / "out" / "conflicts.png").read_bytes().startswith(b"\x89PNG")
