"""Success over sizes."""

import pytest
from helpers.report_runs import evaluation, row, write_run

from polytask.runs.report.pool import pool_runs
from polytask.runs.report.published import Published
from polytask.runs.report.read import read_run
from polytask.runs.report.scaling import draw_batch_size, draw_critic_size


@pytest.fixture
def make(tmp_path):
    made = []

    def write(*runs):
        folder = tmp_path / str(len(made))
        made.append(folder)
        for number, (words, frames, summary) in enumerate(runs):
            rate = 0.1 * (number + 1)
            rows = [{**row(k, {"reach": rate, "push": rate}), "frames": k * frames} for k in (1, 3)]
            write_run(folder / str(number), *words.split(), rows=rows, **summary)
        return pool_runs([read_run(folder / str(number)) for number in range(len(runs))])

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
    (axes,) = draw_critic_size(pools, {}).axes
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
    success, hours = draw_batch_size(pools, {}).axes
    assert lines(success) == {
        "horizon=32": [(320, pytest.approx(0.2)), (640, pytest.approx(0.1))],
        "horizon=64": [(640, pytest.approx(0.3)), (1280, pytest.approx(0.4))],
    }
    assert hours.lines[0].get_ydata() == pytest.approx([0.05, 0.05])


def theirs(success, hours=None, measure="training"):
    return Published("", "", "", measure, "", "", "", success, hours=hours)


def hollow(axes):
    return [
        line.get_xydata().tolist()
        for line in axes.lines
        if line.get_markerfacecolor() == "white" and len(line.get_xdata())
    ]


def test_published_results_are_hollow_markers_at_the_size_of_ours(make):
    pools = make(
        ("num_envs=20 algo.horizon=32", 640, {}),
        ("num_envs=10 algo.horizon=32", 320, {}),
        ("num_envs=10 algo.horizon=64", 640, {}),
        ("num_envs=20 algo.horizon=64", 1280, {}),
    )
    found = {pools[0].name: theirs(0.7, 2.5), pools[2].name: theirs(0.6)}
    success, hours = draw_batch_size(pools, found).axes
    assert hollow(success) == [[[640.0, 0.7]], [[640.0, 0.6]]]
    assert hollow(hours) == [[[640.0, 2.5]]]
    colors = [line.get_markeredgecolor() for line in success.lines if line.get_markerfacecolor() == "white"]
    ours = [each.lines[0].get_color() for each in success.get_legend_handles_labels()[0][-2:]]
    assert colors[:2] == ours and len(set(ours)) == 2
    assert "hollow: published" in success.get_legend_handles_labels()[1]
    sizes = [(f"critic_net=mlp critic_net.hidden=[{size}]", 1000, {"parameters": {"critic": size}}) for size in (8, 64)]
    pools = make(*sizes)
    (axes,) = draw_critic_size(pools, {pools[1].name: theirs(0.9)}).axes
    assert hollow(axes) == [[[64.0, 0.9]]]
    (axes,) = draw_critic_size(pools, {}).axes
    assert len(axes.get_legend_handles_labels()[1]) == 1


def test_published_results_stand_only_beside_ours_of_the_same_measure(make):
    found = {"evaluation": evaluation({"reach": 1.0, "push": 0.5})}
    words = "critic_net=mlp critic_net.hidden="
    ours = [(f"{words}[{size}]", 1000, {"parameters": {"critic": size}, **found}) for size in (8, 64)]
    pools = make(*ours)
    (axes,) = draw_critic_size(pools, {}).axes
    assert axes.get_ylabel().startswith("noiseless success")
    (axes,) = draw_critic_size(pools, {pools[1].name: theirs(0.9)}).axes
    assert axes.get_ylabel().startswith("training success") and hollow(axes) == [[[64.0, 0.9]]]
    ours[1] = (f"{words}[64]", 1000, {"parameters": {"critic": 64}})
    pools = make(*ours)
    (axes,) = draw_critic_size(pools, {pools[1].name: theirs(0.9, measure="noiseless")}).axes
    assert axes.get_ylabel().startswith("training success") and hollow(axes) == []


def test_runs_of_one_size_are_no_figure(make):
    pools = make(("", 100, {}), ("net=moore", 100, {}))
    assert draw_critic_size(pools, {}).startswith("it needs runs that logged their number of parameters")
    assert draw_batch_size(pools, {}).startswith("it needs runs that differ in the number of worlds")
