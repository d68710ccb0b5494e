"""Success over sizes."""

import pytest
from helpers.report_runs import row, write_run

from polytask.runs.report.pool import pool_runs
from polytask.runs.report.read import read_run
from polytask.runs.report.scaling import draw_batch_size, draw_critic_size


@pytest.fixture
def make(tmp_path):
    def write(*runs):
        for number, (words, frames, summary) in enumerate(runs):
            rate = 0.1 * (number + 1)
            rows = [{**row(k, {"reach": rate, "push": rate}), "frames": k * frames} for k in (1, 3)]
            write_run(tmp_path / str(number), *words.split(), rows=rows, **summary)
        return pool_runs([read_run(tmp_path / str(number)) for number in range(len(runs))])

    return write


def lines(axes):
    """Return the points of each line that has a name."""
    handles, names = axes.get_legend_handles_labels()
    return {name: list(zip(*each.lines[0].get_data(), strict=True)) for name, each in zip(names, handles, strict=True)}


def test_critic_sizes_are_one_line_per_kind_of_critic(make):
    def critic(words, size):
        return f"critic_net={words}", 1000, {"parameters": {"actor": 5, "critic": size}}

    pools = make(
        critic("simba_v2 critic_net.hidden=32", 900),
        critic("mlp critic_net.hidden=[64]", 400),
        critic("mlp critic_net.hidden=[8]", 100),
        critic("simba_v2 critic_net.hidden=16", 300),
        critic("bro", 700),
    )
    (axes,) = draw_critic_size(pools).axes
    assert lines(axes) == {
        "critic simba_v2": [(300, pytest.approx(0.4)), (900, pytest.approx(0.1))],
        "critic mlp": [(100, pytest.approx(0.3)), (400, pytest.approx(0.2))],
    }
    assert axes.get_ylabel() == "training success, 95 % intervals"


def test_batches_are_the_frames_of_an_iteration(make):
    pools = make(
        ("num_envs=20 algo.horizon=32", 640, {}),
        ("num_envs=10 algo.horizon=32", 320, {}),
        ("num_envs=10 algo.horizon=64", 640, {}),
        ("num_envs=20 algo.horizon=64", 1280, {}),
    )
    success, hours = draw_batch_size(pools).axes
    assert lines(success) == {
        "horizon=32": [(320, pytest.approx(0.2)), (640, pytest.approx(0.1))],
        "horizon=64": [(640, pytest.approx(0.3)), (1280, pytest.approx(0.4))],
    }
    assert hours.lines[0].get_ydata() == pytest.approx([0.05, 0.05])


def test_runs_of_one_size_are_no_figure(make):
    pools = make(("", 100, {}), ("net=moore", 100, {}))
    assert draw_critic_size(pools).startswith("it needs runs that logged their number of parameters")
    assert draw_batch_size(pools).startswith("it needs runs that differ in the number of worlds")
