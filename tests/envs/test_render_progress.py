"""Progress is shown only if drawing takes long: a bar in a terminal, one line elsewhere."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest

from polytask.envs import render_progress
from polytask.envs.render_progress import RenderProgress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(render_progress, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def run(clock: SimpleNamespace, steps: int, seconds: float) -> None:
    with RenderProgress("drawing", steps) as progress:
        for _ in range(steps):
            clock.now += seconds
            progress.advance()


def test_without_a_terminal_slow_work_prints_one_line(clock: SimpleNamespace, capsys: pytest.CaptureFixture) -> None:
    run(clock, steps=20, seconds=0.75)
    assert capsys.readouterr().err == "drawing: 3 of 20 done, about 13 s left\n"


def test_the_line_waits_until_enough_is_done_to_tell_the_time_left(
    clock: SimpleNamespace, capsys: pytest.CaptureFixture
) -> None:
    with RenderProgress("compiling", 10, began=-8.0, enough=0.3) as progress:
        for count in (0, 2, 2, 6):
            progress.advance(count)
            clock.now += 4.0
        assert progress.is_over
    assert capsys.readouterr().err == "compiling: 4 of 10 done, about 24 s left\n"


def test_fast_work_prints_nothing(clock: SimpleNamespace, capsys: pytest.CaptureFixture) -> None:
    run(clock, steps=20, seconds=0.1)
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_a_bar_and_removes_it(clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    run(clock, steps=4, seconds=1.5)
    assert "drawing" in terminal.getvalue()
    assert "4/4" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K")  # the line is erased
