"""Conflicts between gradients."""

import pytest
from helpers.report_runs import row, write_run

from polytask.runs.report.gradients import conflict_panels, draw_conflicts
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
    assert (panel.setting, panel.network) == ("setting", "critic")
    assert panel.frames.tolist() == [10, 20]
    assert panel.cosine.tolist() == [[-0.5, 0], [0.1, 0.5], [0.5, 1]]
    assert {task: norm.tolist() for task, norm in panel.tasks.items()} == {"reach": [2, 3], "push": [3, 4]}


def test_no_seed_is_extended_beyond_its_own_measurements():
    def seed(*frames):
        return [{"frames": at, **conflicts((at / 100, at / 100, at / 100), (at, at))} for at in frames]

    (panel,) = conflict_panels({"setting": [seed(10, 20, 30, 40), [{"frames": 5}, *seed(15, 35), {"frames": 90}]]})
    assert panel.frames.tolist() == [20, 30]  # the second seed knows nothing before 15 and after 35
    assert panel.cosine[1].tolist() == pytest.approx([0.2, 0.3])
    assert panel.tasks["reach"].tolist() == [20, 30]
    assert conflict_panels({"setting": [seed(10, 20), seed(30, 40)]}) == []


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


def test_runs_without_them_have_no_figure(make):
    assert draw_conflicts(make()).startswith("no setting logged gradients")
