"""Conflicts between gradients, and the weights of tasks."""

import pytest
from helpers.report_runs import row, write_run

from polytask.runs.report.gradients import conflict_panels, draw_conflicts, draw_weights, weight_names
from polytask.runs.report.pool import pool_runs
from polytask.runs.report.read import read_run


def conflicts(cosines, norms):
    names = ("cosine_min", "cosine_mean", "cosine_max", "norms/reach", "norms/push")
    return {f"conflict/critic/{name}": x for name, x in zip(names, (*cosines, *norms), strict=True)}


def test_conflicts_are_averaged_over_seeds_at_the_frames_of_the_measurements():
    first = [
        {"frames": 5},
        {"frames": 10, **conflicts((-1.0, 0.0, 0.5), (1, 2))},
        {"frames": 20, **conflicts((0, 0.5, 1), (3, 4))},
    ]
    second = [
        {"frames": 10, **conflicts((0, 0.2, 0.5), (3, 4))},
        {"frames": 20, **conflicts((0, 0.5, 1), (3, 4))},
    ]
    (panel,) = conflict_panels({"setting": [first, second], "without": [[{"frames": 5}]]})
    assert panel.title == "setting: critic"
    assert panel.frames.tolist() == [10, 20]
    assert panel.cosine.tolist() == [[-0.5, 0], [0.1, 0.5], [0.5, 1]]
    assert {task: norm.tolist() for task, norm in panel.norms.items()} == {"reach": [2, 3], "push": [3, 4]}


@pytest.fixture
def make(tmp_path):
    def write(**metrics):
        rates = {"reach": 0.5, "push": 0.5}
        write_run(
            tmp_path / "run", rows=[row(k, rates, **{key: k * value for key, value in metrics.items()}) for k in (1, 2)]
        )
        return pool_runs([read_run(tmp_path / "run")])

    return write


def test_conflicts_are_drawn_where_they_were_logged(make):
    upper, lower = draw_conflicts(make(**conflicts((0.1, 0.2, 0.3), (1, 2)))).axes
    assert upper.get_title() == "reach+push ppo mlp: critic"
    assert upper.lines[1].get_ydata().tolist() == pytest.approx([0.2, 0.4])
    assert [line.get_label() for line in lower.lines] == ["reach", "push"]


@pytest.mark.parametrize(
    "name, network", [("weight", ""), ("weight/critic", "critic"), ("grads/actor/weights", "actor")]
)
def test_weights_are_found_by_name(name, network):
    rows = [{"loss/weight_decay": 1.0, "success/reach": 0.0, f"{name}/reach": 0.1, f"{name}/push": 0.9}]
    assert weight_names(rows, ["reach", "push"]) == {network: {"reach": f"{name}/reach", "push": f"{name}/push"}}


def test_weights_are_drawn_where_they_were_logged(make):
    (axes,) = draw_weights(make(**{"weight/critic/reach": 0.25, "weight/critic/push": 0.5})).axes
    assert axes.get_title() == "reach+push ppo mlp: critic"
    assert {line.get_label(): line.get_ydata()[-1] for line in axes.lines} == {"reach": 0.5, "push": 1.0}


def test_runs_without_them_have_no_figures(make):
    pools = make()
    assert draw_weights(pools) == "no setting logged the weights of its tasks"
    assert draw_conflicts(pools).startswith("no setting logged gradients")
