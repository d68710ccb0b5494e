"""The progress of a sweep, read from the logs of its runs."""

import json

import pytest

from polytask.runs.sweep import display
from polytask.runs.sweep.display import Progress, SweepDisplay, last_row, line_of, progress_of, seconds_left
from polytask.runs.sweep.grid import settings_of
from polytask.runs.sweep.index import Index
from polytask.runs.sweep.plan import plan


@pytest.fixture
def items(tmp_path):
    return plan(settings_of(["tasks=[reach]", "max_frames=1000", "net=mlp,moore"]), [0, 1], tmp_path, Index(tmp_path))


def write(item, *rows, end="\n"):
    item.run_dir.mkdir(parents=True)
    (item.run_dir / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)) + end)


def test_the_last_whole_row_tells_how_far_a_run_is(items):
    write(items[0], {"frames": 100}, {"frames": 250, "frames_per_second": 50.0, "success": 0.5}, end='\n{"frames": 3')
    assert progress_of(items[0]) == Progress(250, 0.25, 0.5, 50.0)
    assert line_of(progress_of(items[0])) == "25 % 250 frames 50.00/s training success 0.50"
    assert progress_of(items[1]) is None
    assert line_of(None) == "starting"


def test_a_log_without_a_row_has_no_last_one(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert last_row(path) is None
    path.write_text("5\n{")
    assert last_row(path) is None


def test_the_time_left_counts_the_frames_of_all_runs_at_the_speed_of_those_in_progress(items):
    items[0].state = items[1].state = "running"
    items[2].state = "done"
    running = {items[0].name: Progress(500, 0.5, None, 60.0), items[1].name: Progress(0, 0.0, None, 40.0)}
    assert seconds_left(items, running) == (500 + 1000 + 1000) / 100
    assert seconds_left(items, {items[0].name: None}) is None
    items[3].setting.config.max_iterations = 3
    assert seconds_left(items, running) is None


def test_without_a_terminal_all_runs_are_one_line_at_a_time(items, capsys, monkeypatch):
    monkeypatch.setattr(display, "PLAIN_INTERVAL", 0.0)
    items[0].state = items[1].state = "running"
    items[2].state = "failed"
    write(items[0], {"frames": 500, "frames_per_second": 100.0, "success": None})
    shown = SweepDisplay(items)
    with shown.shown():
        shown.update()
        shown.tell("done: it")
    assert capsys.readouterr().err == (
        "0 of 4 runs done, 1 failed, 2 running, about 0:25 left: "
        "00-mlp/seed-0 50 % 500 frames 100.00/s training success - | 01-moore/seed-0 starting\ndone: it\n"
    )
